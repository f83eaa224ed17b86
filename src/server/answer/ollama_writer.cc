#include "src/server/answer/ollama_writer.h"

#include <cmath>

#include "src/server/answer/prompt.h"
#include "src/server/answer/score_json.h"
#include "src/server/service.h"

namespace gabbro::server {
namespace {

std::string json_line(const Json& line) { return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

class OllamaWriter final : public AnswerWriter {
 public:
  explicit OllamaWriter(OllamaForm form) : form_(std::move(form)) {}

  const char* content_type() const override { return "application/x-ndjson"; }

  std::string text(size_t, const AnswerPiece& piece, std::span<const TokenScore> scores) override {
    Json line = head();
    piece.is_thought ? add_text(line, "", piece.text) : add_text(line, piece.text, "");
    add_scores(line, scores);
    line["done"] = false;
    return json_line(line);
  }

  // A call comes whole in one line.
  std::string call_ended(size_t, size_t index, const ToolCall& call) override {
    Json line = head();
    add_text(line, "", "");
    line["message"]["tool_calls"].push_back(call_json(index, call));
    line["done"] = false;
    return json_line(line);
  }

  // Scores that no text followed go with the last line.
  std::string finished(size_t, const Choice&, std::span<const TokenScore> scores) override {
    last_scores_.assign(scores.begin(), scores.end());
    return {};
  }

  std::string end(const std::vector<Choice>& choices, const AnswerTotals& totals) override {
    Json line = head();
    add_text(line, "", "");
    add_scores(line, last_scores_);
    add_end(line, choices.front(), totals);
    return json_line(line);
  }

  std::string failed(const ApiError& error) override { return json_line(error_json(error, Dialect::kOllama)); }

  // A line would be taken for a piece of the answer.
  std::string ping(size_t) override { return {}; }

  Json whole(const std::vector<Choice>& choices, const AnswerTotals& totals) override {
    Json answer = head();
    add_text(answer, choices.front().text, choices.front().thought);
    const std::vector<ToolCall>& calls = choices.front().calls;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].is_complete) answer["message"]["tool_calls"].push_back(call_json(i, calls[i]));
    }
    add_scores(answer, choices.front().result.scores);
    add_end(answer, choices.front(), totals);
    return answer;
  }

 private:
  Json head() const { return {{"model", form_.model}, {"created_at", rfc3339_now()}}; }

  static Json call_json(size_t index, const ToolCall& call) {
    return {{"id", call.id},
            {"function", {{"index", index}, {"name", call.name}, {"arguments", arguments_object(call.arguments)}}}};
  }

  void add_text(Json& line, std::string_view text, std::string_view thought) const {
    Json& target = form_.is_chat ? line["message"] : line;
    if (form_.is_chat) target["role"] = "assistant";
    target[form_.is_chat ? "content" : "response"] = text;
    if (!thought.empty()) target["thinking"] = thought;
  }

  void add_scores(Json& line, std::span<const TokenScore> scores) const {
    if (form_.scored_by != nullptr && !scores.empty()) line["logprobs"] = token_scores(*form_.scored_by, scores);
  }

  void add_end(Json& line, const Choice& choice, const AnswerTotals& totals) const {
    line["done"] = true;
    const std::string_view reason = choice.finish_reason();
    line["done_reason"] = reason == "tool_calls" ? "stop" : reason;
    if (!form_.is_chat) {
      line["context"] = form_.prompt;
      for (const int32_t token : choice.result.token_ids) line["context"].push_back(token);
    }
    line["total_duration"] = nanoseconds(totals.total_seconds);
    line["load_duration"] = nanoseconds(totals.load_seconds);
    line["prompt_eval_count"] = totals.prompt_tokens;
    line["prompt_eval_duration"] = nanoseconds(totals.prefill_seconds);
    line["eval_count"] = totals.generated_tokens;
    line["eval_duration"] = nanoseconds(totals.decode_seconds);
  }

  const OllamaForm form_;
  std::vector<TokenScore> last_scores_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_ollama_writer(OllamaForm form) {
  return std::make_unique<OllamaWriter>(std::move(form));
}

Json ollama_load_answer(const OllamaForm& form, const char* reason) {
  Json answer = {{"model", form.model}, {"created_at", rfc3339_now()}};
  if (form.is_chat) {
    answer["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    answer["response"] = "";
  }
  answer["done"] = true;
  answer["done_reason"] = reason;
  return answer;
}

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

}  // namespace gabbro::server
