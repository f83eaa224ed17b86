#include "src/server/answer/anthropic_writer.h"

#include "src/server/answer/blocks.h"
#include "src/server/answer/prompt.h"
#include "src/server/http/url.h"

namespace gabbro::server {
namespace {

std::string event(const char* type, Json members = Json::object()) {
  Json data = {{"type", type}};
  for (auto& [name, value] : members.items()) data[name] = std::move(value);
  return named_event(type, data);
}

const char* stop_reason_of(const Choice& choice) {
  switch (choice.result.stop_reason) {
    case StopReason::kMaxTokens:
      return "max_tokens";
    case StopReason::kContextFull:
      return "model_context_window_exceeded";
    case StopReason::kStopText:
      if (!choice.result.stop_text.empty()) return "stop_sequence";
      break;
    default:
      break;
  }
  return std::string_view(choice.finish_reason()) == "tool_calls" ? "tool_use" : "end_turn";
}

Json stop_text_of(const Choice& choice) {
  const bool has_text = std::string_view(stop_reason_of(choice)) == "stop_sequence";
  return has_text ? Json(choice.result.stop_text) : Json(nullptr);
}

// input_tokens are those that no cache had.
Json usage_json(int64_t prompt, int64_t cached, int64_t generated) {
  return {{"input_tokens", prompt - cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached},
          {"output_tokens", generated}};
}

class AnthropicWriter final : public AnswerWriter {
 public:
  explicit AnthropicWriter(AnthropicForm form) : form_(std::move(form)) {}

  const char* content_type() const override { return "text/event-stream; charset=utf-8"; }
  const char* call_prefix() const override { return "toolu_"; }

  std::string begin() override {
    Json message = head();
    message["content"] = Json::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = usage_json(form_.prompt_tokens, 0, 0);
    return event("message_start", {{"message", std::move(message)}}) + event("ping");
  }

  std::string text(size_t, const AnswerPiece& piece, std::span<const TokenScore>) override {
    const BlockKind kind = piece.is_thought ? BlockKind::kThought : BlockKind::kText;
    std::string out;
    if (open_ != kind) {
      out = close();
      out += open(kind, piece.is_thought ? Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}
                                         : Json{{"type", "text"}, {"text", ""}});
    }
    return out + delta(piece.is_thought ? Json{{"type", "thinking_delta"}, {"thinking", piece.text}}
                                        : Json{{"type", "text_delta"}, {"text", piece.text}});
  }

  std::string call(size_t, size_t, const ToolCall& call, std::string_view arguments) override {
    if (!arguments.empty()) return delta({{"type", "input_json_delta"}, {"partial_json", arguments}});
    std::string out = close();
    return out += open(BlockKind::kCall, call_block(call, Json::object()));
  }

  std::string call_ended(size_t, size_t, const ToolCall&) override { return close(); }

  std::string finished(size_t, const Choice&, std::span<const TokenScore>) override { return close(); }

  std::string end(const std::vector<Choice>& choices, const AnswerTotals& totals) override {
    const Choice& choice = choices.front();
    return event("message_delta",
                 {{"delta", {{"stop_reason", stop_reason_of(choice)}, {"stop_sequence", stop_text_of(choice)}}},
                  {"usage", usage_json(totals.prompt_tokens, totals.cached_tokens, totals.generated_tokens)}}) +
           event("message_stop");
  }

  std::string failed(const ApiError& error) override {
    return named_event("error", error_json(error, Dialect::kAnthropic, form_.request_id));
  }

  std::string ping(size_t) override { return event("ping"); }

  Json whole(const std::vector<Choice>& choices, const AnswerTotals& totals) override {
    const Choice& choice = choices.front();
    Json message = head();
    Json content = Json::array();
    for (const Block& block : blocks_of(choice)) content.push_back(block_json(block));
    message["content"] = std::move(content);
    message["stop_reason"] = stop_reason_of(choice);
    message["stop_sequence"] = stop_text_of(choice);
    message["usage"] = usage_json(totals.prompt_tokens, totals.cached_tokens, totals.generated_tokens);
    return message;
  }

 private:
  Json head() const { return {{"id", form_.id}, {"type", "message"}, {"role", "assistant"}, {"model", form_.model}}; }

  static Json call_block(const ToolCall& call, Json input) {
    return {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", std::move(input)}};
  }

  Json block_json(const Block& block) const {
    if (block.kind == BlockKind::kCall) return call_block(*block.call, arguments_object(block.call->arguments));
    if (block.kind == BlockKind::kText) return {{"type", "text"}, {"text", block.text}};
    return {{"type", "thinking"}, {"thinking", block.text}, {"signature", signature_}};
  }

  std::string open(BlockKind kind, Json block) {
    open_ = kind;
    return event("content_block_start", {{"index", index_}, {"content_block", std::move(block)}});
  }

  std::string delta(Json delta) const {
    return event("content_block_delta", {{"index", index_}, {"delta", std::move(delta)}});
  }

  std::string close() {
    if (open_ == BlockKind::kNone) return {};
    std::string out;
    if (open_ == BlockKind::kThought) out = delta({{"type", "signature_delta"}, {"signature", signature_}});
    open_ = BlockKind::kNone;
    return out + event("content_block_stop", {{"index", index_++}});
  }

  const AnthropicForm form_;
  // Clients require a text and send it back; thoughts are read without it.
  const std::string signature_ = random_id("sig_");
  BlockKind open_ = BlockKind::kNone;
  int64_t index_ = 0;  // of the block that is open, or comes next
};

}  // namespace

std::unique_ptr<AnswerWriter> make_anthropic_writer(AnthropicForm form) {
  return std::make_unique<AnthropicWriter>(std::move(form));
}

}  // namespace gabbro::server
