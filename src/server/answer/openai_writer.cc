#include "src/server/answer/openai_writer.h"

#include <fmt/format.h>

#include "src/server/answer/score_json.h"

namespace gabbro::server {
namespace {

std::string json_text(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_calls(Json& message, const Choice& choice, bool is_old_form) {
  if (choice.text.empty()) message["content"] = nullptr;
  if (is_old_form) {
    message["function_call"] = {{"name", choice.calls[0].name}, {"arguments", choice.calls[0].arguments}};
    return;
  }
  for (const ToolCall& call : choice.calls) {
    message["tool_calls"].push_back(
        {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
}

class OpenAiWriter final : public AnswerWriter {
 public:
  OpenAiWriter(OpenAiForm form, size_t choices) : form_(std::move(form)), choices_(choices), offsets_(choices) {
    prefix_ = fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{},"system_fingerprint":{},"choices":[)",
                          json_text(form_.id), form_.is_chat ? "chat.completion.chunk" : "text_completion",
                          form_.created, json_text(form_.model), json_text(form_.fingerprint));
  }

  const char* content_type() const override { return "text/event-stream; charset=utf-8"; }

  std::string begin() override {
    std::string out;
    for (size_t i = 0; i < choices_; ++i) {
      if (form_.is_chat) {
        out += chunk(i, R"("delta":{"role":"assistant","content":""})", "null", "null");
      } else if (i < form_.echos.size()) {
        out += text(i, {.text = form_.echos[i]}, {});
      }
    }
    return out;
  }

  std::string text(size_t choice, const AnswerPiece& piece, std::span<const TokenScore> scores) override {
    const std::string value = json_text(piece.text);
    const std::string delta =
        form_.is_chat ? fmt::format(R"("delta":{{"{}":{}}})", piece.is_thought ? "reasoning_content" : "content", value)
                      : R"("text":)" + value;
    return chunk(choice, delta, "null", streamed_scores(choice, scores));
  }

  std::string call(size_t choice, size_t index, const ToolCall& call, std::string_view arguments) override {
    const std::string head = arguments.empty() ? fmt::format(R"("id":{},"type":"function",)", json_text(call.id)) : "";
    const std::string name = arguments.empty() ? fmt::format(R"("name":{},)", json_text(call.name)) : "";
    if (form_.has_function_call) {
      const std::string delta =
          fmt::format(R"("delta":{{"function_call":{{{}"arguments":{}}}}})", name, json_text(arguments));
      return chunk(choice, delta, "null", "null");
    }
    return chunk(choice,
                 fmt::format(R"("delta":{{"tool_calls":[{{"index":{},{}"function":{{{}"arguments":{}}}}}]}})", index,
                             head, name, json_text(arguments)),
                 "null", "null");
  }

  std::string finished(size_t choice, const Choice& result, std::span<const TokenScore> scores) override {
    return chunk(choice, form_.is_chat ? R"("delta":{})" : R"("text":"")", json_text(reason_of(result)),
                 streamed_scores(choice, scores));
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
        if (!choices[i].calls.empty()) add_calls(message, choices[i], form_.has_function_call);
        row["message"] = std::move(message);
      } else {
        row["text"] = (i < form_.echos.size() ? form_.echos[i] : "") + choices[i].text;
      }
      row["logprobs"] = whole_scores(i, choices[i].result);
      row["finish_reason"] = reason_of(choices[i]);
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
  std::string reason_of(const Choice& choice) const {
    const std::string reason = choice.finish_reason();
    return form_.has_function_call && reason == "tool_calls" ? "function_call" : reason;
  }

  std::string chunk(size_t choice, const std::string& delta, const std::string& reason,
                    const std::string& scores) const {
    return sse_event(fmt::format(R"({}{{"index":{},{},"logprobs":{},"finish_reason":{}}}]{}}})", prefix_, choice, delta,
                                 scores, reason, form_.includes_usage ? R"(,"usage":null)" : ""));
  }

  std::string streamed_scores(size_t choice, std::span<const TokenScore> scores) {
    if (form_.scored_by == nullptr || scores.empty()) return "null";
    if (form_.is_chat) return Json({{"content", token_scores(*form_.scored_by, scores)}, {"refusal", nullptr}}).dump();
    CompletionScores table(*form_.scored_by, offsets_[choice]);
    for (const TokenScore& score : scores) table.add(score);
    offsets_[choice] = table.offset();
    return table.take().dump();
  }

  Json whole_scores(size_t choice, const GenerateResult& result) const {
    if (form_.scored_by == nullptr) return nullptr;
    if (form_.is_chat) return {{"content", token_scores(*form_.scored_by, result.scores)}, {"refusal", nullptr}};
    CompletionScores table(*form_.scored_by, 0);
    if (choice < form_.echo_tokens.size()) {
      table.add_first(form_.echo_tokens[choice].front());
      for (const TokenScore& score : result.prompt_scores) table.add(score);
    }
    for (const TokenScore& score : result.scores) table.add(score);
    return table.take();
  }

  const OpenAiForm form_;
  const size_t choices_;
  std::vector<int64_t> offsets_;  // by choice: characters before the next token of a stream
  std::string prefix_;            // of a chunk, up to its choices
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

std::string sse_event(std::string_view data) { return fmt::format("data: {}\n\n", data); }

}  // namespace gabbro::server
