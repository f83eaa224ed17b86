#include "src/server/answer/responses_writer.h"

#include <algorithm>

#include "src/server/answer/blocks.h"
#include "src/server/http/url.h"
#include "src/text/base64.h"
#include "src/text/tokenizer.h"

namespace gabbro::server {
namespace {

constexpr const char *kInProgress = "in_progress", *kCompleted = "completed", *kIncomplete = "incomplete";

class ResponsesWriter final : public AnswerWriter {
 public:
  explicit ResponsesWriter(ResponsesForm form) : form_(std::move(form)) {}

  const char* content_type() const override { return "text/event-stream; charset=utf-8"; }

  std::string begin() override {
    std::string out = event("response.created", {{"response", response(kInProgress)}});
    return out += event("response.in_progress", {{"response", response(kInProgress)}});
  }

  std::string text(size_t, const AnswerPiece& piece, std::span<const TokenScore>) override {
    const BlockKind kind = piece.is_thought ? BlockKind::kThought : BlockKind::kText;
    std::string out;
    if (open_ != kind) {
      out = close(kCompleted);
      item_id_ = random_id(piece.is_thought ? "rs_" : "msg_");
      out += open(kind, item_of(kind, "", kInProgress));
      Json members = place();
      members["content_index"] = 0;
      members["part"] = part_of(kind, "");
      out += event("response.content_part.added", std::move(members));
    }
    text_ += piece.text;
    Json members = place();
    members["content_index"] = 0;
    members["delta"] = piece.text;
    if (!piece.is_thought) members["logprobs"] = Json::array();
    return out +
           event(piece.is_thought ? "response.reasoning_text.delta" : "response.output_text.delta", std::move(members));
  }

  std::string call(size_t, size_t, const ToolCall& call, std::string_view arguments) override {
    if (arguments.empty()) {
      std::string out = close(kCompleted);
      call_ = {.id = call.id, .name = call.name};
      item_id_ = random_id(is_custom(call) ? "ctc_" : "fc_");
      return out + open(BlockKind::kCall, call_item(call_, kInProgress));
    }
    call_.arguments += arguments;
    if (is_custom(call)) return {};  // its input comes whole
    Json members = place();
    members["delta"] = arguments;
    return event("response.function_call_arguments.delta", std::move(members));
  }

  std::string call_ended(size_t, size_t, const ToolCall&) override { return close(kCompleted); }

  std::string finished(size_t, const Choice& choice, std::span<const TokenScore>) override {
    return close(is_cut(choice) ? kIncomplete : kCompleted);
  }

  std::string end(const std::vector<Choice>& choices, const AnswerTotals& totals) override {
    const bool cut = is_cut(choices.front());
    return event(cut ? "response.incomplete" : "response.completed",
                 {{"response", ended(choices.front(), output_, totals)}});
  }

  std::string failed(const ApiError& error) override {
    Json failed = response("failed");
    failed["error"] = {{"code", error.code().empty() ? "server_error" : error.code()}, {"message", error.what()}};
    return event("response.failed", {{"response", std::move(failed)}});
  }

  std::string ping(size_t) override { return ": ping\n\n"; }

  Json whole(const std::vector<Choice>& choices, const AnswerTotals& totals) override {
    const Choice& choice = choices.front();
    const std::vector<Block> blocks = blocks_of(choice);
    Json output = Json::array();
    for (const Block& block : blocks) {
      const bool is_last = &block == &blocks.back();
      const char* const status = is_last && is_cut(choice) ? kIncomplete : kCompleted;
      const char* const call_prefix = block.call != nullptr && is_custom(*block.call) ? "ctc_" : "fc_";
      item_id_ = random_id(block.kind == BlockKind::kCall   ? call_prefix
                           : block.kind == BlockKind::kText ? "msg_"
                                                            : "rs_");
      output.push_back(block.kind == BlockKind::kCall ? call_item(*block.call, status)
                                                      : item_of(block.kind, block.text, status));
    }
    return ended(choice, output, totals);
  }

 private:
  static bool is_cut(const Choice& choice) { return std::string_view(choice.finish_reason()) == "length"; }

  std::string event(const char* type, Json members) {
    Json data = {{"type", type}, {"sequence_number", sequence_++}};
    for (auto& [name, value] : members.items()) data[name] = std::move(value);
    return named_event(type, data);
  }

  Json response(const char* status) const {
    Json made = form_.response;
    made["status"] = status;
    return made;
  }

  Json ended(const Choice& choice, const Json& output, const AnswerTotals& totals) const {
    Json made = response(is_cut(choice) ? kIncomplete : kCompleted);
    if (is_cut(choice)) made["incomplete_details"] = {{"reason", "max_output_tokens"}};
    made["output"] = output;
    const auto thoughts = static_cast<int64_t>(
        form_.tokenizer->encode(choice.thought, {.add_special = false, .parse_special = false}).size());
    made["usage"] = {{"input_tokens", totals.prompt_tokens},
                     {"input_tokens_details", {{"cached_tokens", totals.cached_tokens}, {"cache_write_tokens", 0}}},
                     {"output_tokens", totals.generated_tokens},
                     {"output_tokens_details", {{"reasoning_tokens", std::min(thoughts, totals.generated_tokens)}}},
                     {"total_tokens", totals.prompt_tokens + totals.generated_tokens}};
    return made;
  }

  static Json part_of(BlockKind kind, const std::string& text) {
    if (kind == BlockKind::kThought) return {{"type", "reasoning_text"}, {"text", text}};
    return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }

  // Thoughts or a message, as long as it is in progress without content.
  Json item_of(BlockKind kind, const std::string& text, const char* status) const {
    Json content = Json::array();
    if (status != kInProgress) content.push_back(part_of(kind, text));
    if (kind == BlockKind::kText) {
      return {{"id", item_id_},
              {"type", "message"},
              {"role", "assistant"},
              {"status", status},
              {"content", std::move(content)}};
    }
    Json item = {{"id", item_id_},
                 {"type", "reasoning"},
                 {"summary", Json::array()},
                 {"content", std::move(content)},
                 {"status", status}};
    if (form_.gives_thoughts) item["encrypted_content"] = text::encode_base64(text);
    return item;
  }

  bool is_custom(const ToolCall& call) const { return form_.custom_tools.contains(call.name); }

  // The text of a custom tool's call; arguments of another form are passed unchanged.
  static std::string input_of(const ToolCall& call) {
    const Json arguments = Json::parse(call.arguments, nullptr, false);
    if (!arguments.is_object() || !arguments.contains("input") || !arguments["input"].is_string())
      return call.arguments;
    return arguments["input"].get<std::string>();
  }

  Json call_item(const ToolCall& call, const char* status) const {
    if (is_custom(call)) {
      return {{"id", item_id_},    {"type", "custom_tool_call"}, {"call_id", call.id},
              {"name", call.name}, {"input", input_of(call)},    {"status", status}};
    }
    return {{"id", item_id_},    {"type", "function_call"},     {"call_id", call.id},
            {"name", call.name}, {"arguments", call.arguments}, {"status", status}};
  }

  Json place() const { return {{"item_id", item_id_}, {"output_index", index_}}; }

  std::string open(BlockKind kind, Json item) {
    open_ = kind;
    text_.clear();
    return event("response.output_item.added", {{"output_index", index_}, {"item", std::move(item)}});
  }

  std::string close(const char* status) {
    if (open_ == BlockKind::kNone) return {};
    std::string out = open_ == BlockKind::kCall ? end_call() : end_part();
    Json item = open_ == BlockKind::kCall ? call_item(call_, status) : item_of(open_, text_, status);
    output_.push_back(item);
    out += event("response.output_item.done", {{"output_index", index_++}, {"item", std::move(item)}});
    open_ = BlockKind::kNone;
    return out;
  }

  std::string end_call() {
    Json members = place();
    if (is_custom(call_)) {
      Json delta = members;
      delta["delta"] = members["input"] = input_of(call_);
      std::string out = event("response.custom_tool_call_input.delta", std::move(delta));
      return out += event("response.custom_tool_call_input.done", std::move(members));
    }
    members["name"] = call_.name;
    members["arguments"] = call_.arguments;
    return event("response.function_call_arguments.done", std::move(members));
  }

  std::string end_part() {
    Json members = place();
    members["content_index"] = 0;
    Json part = members;
    part["part"] = part_of(open_, text_);
    members["text"] = text_;
    const bool is_thought = open_ == BlockKind::kThought;
    if (!is_thought) members["logprobs"] = Json::array();
    std::string out =
        event(is_thought ? "response.reasoning_text.done" : "response.output_text.done", std::move(members));
    return out += event("response.content_part.done", std::move(part));
  }

  const ResponsesForm form_;
  int64_t sequence_ = 0, index_ = 0;  // of events; of the item that is open, or comes next
  BlockKind open_ = BlockKind::kNone;
  std::string item_id_, text_;  // of the item that is open
  ToolCall call_{};
  Json output_ = Json::array();  // items that are done
};

}  // namespace

std::unique_ptr<AnswerWriter> make_responses_writer(ResponsesForm form) {
  return std::make_unique<ResponsesWriter>(std::move(form));
}

}  // namespace gabbro::server
