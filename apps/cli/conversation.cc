#include "apps/cli/conversation.h"

#include <algorithm>
#include <optional>

#include "src/base/error.h"
#include "src/text/chat/harmony.h"

namespace gabbro::cli {

Conversation::Conversation(std::shared_ptr<ModelService> model, const GenerationOptions& options,
                           std::function<void(const std::string&)> note)
    : model_(std::move(model)), options_(options), note_(note), encoder_(model_, options, note) {
  reset();
}

void Conversation::reset() {
  messages_ = nlohmann::ordered_json::array();
  if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
  first_ = messages_.size();
  for (const auto& [role, content] : options_.examples) messages_.push_back({{"role", role}, {"content", content}});
}

void Conversation::set_system(const std::string& text) {
  options_.system = text;
  if (!messages_.empty() && messages_[0]["role"] == "system") {
    messages_.erase(0);
    --first_;
  }
  if (text.empty()) return;
  const nlohmann::ordered_json message = {{"role", "system"}, {"content", text}};
  messages_.insert(messages_.begin(), message);
  ++first_;
}

nlohmann::ordered_json Conversation::kept_messages() const {
  auto kept = nlohmann::ordered_json::array();
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (i >= first_ || messages_[i]["role"] == "system") kept.push_back(messages_[i]);
  }
  return kept;
}

// The user message after the oldest one in the prompt; 0: none.
size_t Conversation::next_turn() const {
  for (size_t i = first_ + 1; i < messages_.size(); ++i) {
    if (messages_[i]["role"] == "user") return i;
  }
  return 0;
}

// With room for the answer: -n tokens, but at most half the context; a quarter of it where there is no limit.
std::vector<int32_t> Conversation::fitting_prompt() {
  const int64_t context = model_->facts().context;
  const int64_t wanted = options_.generate.max_tokens;
  const int64_t room = context - (wanted >= 0 ? std::min(wanted, context / 2) : context / 4);
  const auto encoded = [&] {
    return tools_ != nullptr ? encoder_.encode(kept_messages(), tools_->shown()) : encoder_.encode(kept_messages());
  };
  std::vector<int32_t> tokens = encoded();
  const size_t before = first_;
  while (std::ssize(tokens) > room && next_turn() != 0) {
    first_ = next_turn();
    tokens = encoded();
  }
  if (first_ != before) {
    note_(fmt::format("the context of {} tokens is full: the {} oldest messages are left out from here on{}", context,
                      first_ - before, options_.system.empty() ? "" : ", the system message stays"));
  }
  return tokens;
}

void Conversation::set_tools(const RunTools& tools) {
  const text::ChatTemplate* const used = encoder_.tool_template();
  if (used != nullptr) call_format_ = text::tool_call_format(used->source());
  if (call_format_ == text::ToolCallFormat::kNone)
    throw bad_input("--tools: the model's chat template has no form of calls that is known");
  tools_ = &tools;
  options_.generate.shown_controls = text::tool_call_controls(call_format_);
}

GenerateResult Conversation::say(const std::string& text, const std::function<void(std::string_view)>& on_text,
                                 const std::atomic<bool>* cancel) {
  return answer(nlohmann::ordered_json::array({{{"role", "user"}, {"content", text}}}), on_text, cancel);
}

GenerateResult Conversation::go_on(const nlohmann::ordered_json& results,
                                   const std::function<void(std::string_view)>& on_text,
                                   const std::atomic<bool>* cancel) {
  return answer(results, on_text, cancel);
}

GenerateResult Conversation::answer(const nlohmann::ordered_json& messages,
                                    const std::function<void(std::string_view)>& on_text,
                                    const std::atomic<bool>* cancel) {
  const size_t count = messages_.size(), first = first_;
  for (const auto& message : messages) messages_.push_back(message);
  try {
    GenerateResult result = generate_text(on_text, cancel);
    nlohmann::ordered_json message = {{"role", "assistant"}, {"content", result.text}};
    for (const ModelCall& call : calls_) {
      auto arguments = nlohmann::ordered_json::parse(call.arguments, nullptr, false);
      if (!arguments.is_object()) arguments = {{"arguments", call.arguments}};
      message["tool_calls"].push_back({{"id", call.id},
                                       {"type", "function"},
                                       {"function", {{"name", call.name}, {"arguments", std::move(arguments)}}}});
    }
    messages_.push_back(std::move(message));
    return result;
  } catch (...) {
    while (messages_.size() > count) messages_.erase(messages_.size() - 1);
    first_ = first;
    throw;
  }
}

GenerateResult Conversation::generate_text(const std::function<void(std::string_view)>& on_text,
                                           const std::atomic<bool>* cancel) {
  calls_.clear();
  const GenerationRequest request{fitting_prompt(), options_.generate};
  if (!uses_template()) return generate(*model_, request, on_text, cancel);
  text::HarmonyChannels channels;
  const auto show = [&](const std::string& shown) {
    if (on_text && !shown.empty()) on_text(shown);
  };
  const auto show_piece = [&](std::string_view piece) { show(channels.feed(piece)); };
  std::optional<text::ToolCallParser> parser;
  if (tools_ != nullptr) parser.emplace(call_format_, tools_->known());
  GenerateResult result = generate(
      *model_, request,
      [&](std::string_view piece) { parser ? take_pieces(parser->feed(piece), show_piece) : show_piece(piece); },
      cancel);
  if (parser) take_pieces(parser->finish(), show_piece);
  show(channels.finish());
  result.text = channels.answer();
  std::erase_if(calls_, [](const ModelCall& call) { return call.id.empty(); });  // cut by the end of the answer
  if (result.stop_reason == StopReason::kCanceled) calls_.clear();
  return result;
}

void Conversation::take_pieces(const std::vector<text::ToolCallPiece>& pieces,
                               const std::function<void(std::string_view)>& on_text) {
  using Kind = text::ToolCallPiece::Kind;
  for (const text::ToolCallPiece& piece : pieces) {
    switch (piece.kind) {
      case Kind::kText:
        on_text(piece.text);
        break;
      case Kind::kCall:
        calls_.push_back({.id = "", .name = piece.text, .arguments = ""});
        break;
      case Kind::kArguments:
        calls_.back().arguments += piece.text;
        break;
      case Kind::kEnd:  // templates of Mistral take ids of nine letters and digits only
        calls_.back().id = fmt::format("call{:05}", ++call_count_ % 100'000);
        break;
    }
  }
}

std::string describe_cut(const GenerateResult& result, const GenerateOptions& options, const ModelFacts& facts) {
  if (result.stop_reason == StopReason::kMaxTokens && options.max_tokens > 0)
    return fmt::format("the answer was cut off after {} tokens (--max-tokens)", options.max_tokens);
  if (result.stop_reason != StopReason::kContextFull) return "";
  const std::string more = facts.context < facts.context_trained
                               ? fmt::format("a larger --ctx continues, up to {}", facts.context_trained)
                               : "the model was trained for no more";
  return fmt::format("the answer was cut off: the context of {} tokens is full ({})", facts.context, more);
}

}  // namespace gabbro::cli
