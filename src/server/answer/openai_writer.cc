#include "src/server/answer/openai_writer.h"

#include <fmt/format.h>

namespace gabbro::server {
namespace {

std::string json_text(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json timings_of(const AnswerTotals& totals) {
  const auto per_second = [](int64_t count, double seconds) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  };
  const int64_t computed = totals.prompt_tokens - totals.cached_tokens;
  return {{"cache_n", totals.cached_tokens},
          {"prompt_n", computed},
          {"prompt_ms", totals.prefill_seconds * 1e3},
          {"prompt_per_second", per_second(computed, totals.prefill_seconds)},
          {"predicted_n", totals.generated_tokens},
          {"predicted_ms", totals.decode_seconds * 1e3},
          {"predicted_per_second", per_second(totals.generated_tokens, totals.decode_seconds)}};
}

class OpenAiWriter final : public AnswerWriter {
 public:
  OpenAiWriter(OpenAiForm form, size_t choices) : form_(std::move(form)), choices_(choices) {
    prefix_ = fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{},"system_fingerprint":{},"choices":[)",
                          json_text(form_.id), form_.is_chat ? "chat.completion.chunk" : "text_completion",
                          form_.created, json_text(form_.model), json_text(form_.fingerprint));
  }

  const char* content_type() const override { return "text/event-stream; charset=utf-8"; }

  std::string begin() override {
    std::string out;
    for (size_t i = 0; i < choices_; ++i) {
      if (form_.is_chat) {
        out += chunk(i, R"("delta":{"role":"assistant","content":""})", "null");
      } else if (i < form_.echos.size()) {
        out += text(i, form_.echos[i], false);
      }
    }
    return out;
  }

  std::string text(size_t choice, std::string_view text, bool is_thought) override {
    const std::string value = json_text(text);
    if (!form_.is_chat) return chunk(choice, R"("text":)" + value, "null");
    return chunk(choice, fmt::format(R"("delta":{{"{}":{}}})", is_thought ? "reasoning_content" : "content", value),
                 "null");
  }

  std::string finished(size_t choice, const Choice& result) override {
    return chunk(choice, form_.is_chat ? R"("delta":{})" : R"("text":"")", json_text(result.finish_reason()));
  }

  std::string end(const std::vector<Choice>&, const AnswerTotals& totals) override {
    std::string out;
    if (form_.includes_usage) {
      out = sse_event(
          fmt::format(R"({}],"usage":{},"timings":{}}})", prefix_, usage_of(totals).dump(), timings_of(totals).dump()));
    }
    return out + sse_event("[DONE]");
  }

  std::string failed(const ApiError& error) override {
    return sse_event(error_json(error, Dialect::kOpenAi).dump(-1, ' ', false, Json::error_handler_t::replace)) +
           sse_event("[DONE]");
  }

  std::string ping(size_t place) override {
    return place > 0 ? fmt::format(": waiting, place {}\n\n", place) : std::string(": ping\n\n");
  }

  Json whole(const std::vector<Choice>& choices, const AnswerTotals& totals) override {
    Json rows = Json::array();
    for (size_t i = 0; i < choices.size(); ++i) {
      Json row = {{"index", i}};
      if (form_.is_chat) {
        Json message = {{"role", "assistant"}, {"content", choices[i].text}, {"refusal", nullptr}};
        if (!choices[i].thought.empty()) message["reasoning_content"] = choices[i].thought;
        row["message"] = std::move(message);
      } else {
        row["text"] = (i < form_.echos.size() ? form_.echos[i] : "") + choices[i].text;
      }
      row["logprobs"] = nullptr;
      row["finish_reason"] = choices[i].finish_reason();
      rows.push_back(std::move(row));
    }
    return {{"id", form_.id},
            {"object", form_.is_chat ? "chat.completion" : "text_completion"},
            {"created", form_.created},
            {"model", form_.model},
            {"choices", std::move(rows)},
            {"usage", usage_of(totals)},
            {"system_fingerprint", form_.fingerprint},
            {"timings", timings_of(totals)}};
  }

 private:
  std::string chunk(size_t choice, const std::string& delta, const std::string& reason) const {
    return sse_event(fmt::format(R"({}{{"index":{},{},"logprobs":null,"finish_reason":{}}}]{}}})", prefix_, choice,
                                 delta, reason, form_.includes_usage ? R"(,"usage":null)" : ""));
  }

  const OpenAiForm form_;
  const size_t choices_;
  std::string prefix_;  // of a chunk, up to its choices
};

}  // namespace

std::unique_ptr<AnswerWriter> make_openai_writer(OpenAiForm form, size_t choices) {
  return std::make_unique<OpenAiWriter>(std::move(form), choices);
}

Json usage_of(const AnswerTotals& totals) {
  return {{"prompt_tokens", totals.prompt_tokens},
          {"completion_tokens", totals.generated_tokens},
          {"total_tokens", totals.prompt_tokens + totals.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", totals.cached_tokens}}}};
}

std::string sse_event(std::string_view data) { return fmt::format("data: {}\n\n", data); }

}  // namespace gabbro::server
