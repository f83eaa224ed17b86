#include "apps/cli/conversation.h"

#include <algorithm>
#include <iterator>
#include <utility>

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
  if (used == nullptr) throw bad_input("--tools needs a chat template, which the model lacks");
  call_format_ = text::tool_call_format(used->source());
  if (call_format_ == text::ToolCallFormat::kNone) {
    call_format_ = text::ToolCallFormat::kGeneric;
    encoder_.describe_tools();
  }
  tools_ = &tools;
  thought_form_ = text::thought_form(used->source());
  options_.generate.shown_controls = text::tool_call_controls(call_format_);
  std::ranges::move(text::thought_controls(thought_form_), std::back_inserter(options_.generate.shown_controls));
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
    if (!thought_.empty()) message["reasoning_content"] = thought_;
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
  thought_.clear();
  const GenerationRequest request{fitting_prompt(), options_.generate};
  if (!uses_template()) return generate(*model_, request, on_text, cancel);
  if (tools_ != nullptr) return generate_with_tools(request, on_text, cancel);
  text::HarmonyChannels channels;
  const auto show = [&](const std::string& shown) {
    if (on_text && !shown.empty()) on_text(shown);
  };
  GenerateResult result = generate(
      *model_, request, [&](std::string_view piece) { show(channels.feed(piece)); }, cancel);
  show(channels.finish());
  result.text = channels.answer();
  return result;
}

GenerateResult Conversation::generate_with_tools(const GenerationRequest& request,
                                                 const std::function<void(std::string_view)>& on_text,
                                                 const std::atomic<bool>* cancel) {
  using Mode = text::ThoughtSplitter::Mode;
  ToolAnswer answer({.mode = encoder_.opens_thoughts() ? Mode::kOpen : Mode::kDetect, .form = thought_form_},
                    call_format_, tools_->known());
  const auto show = [&](const std::string& shown) {
    if (on_text && !shown.empty()) on_text(shown);
  };
  GenerateResult result = generate(
      *model_, request, [&](std::string_view piece) { show(answer.feed(piece)); }, cancel);
  show(answer.finish());
  result.text = answer.text();
  thought_ = answer.thought();
  if (result.stop_reason == StopReason::kCanceled) return result;
  for (ModelCall call : answer.calls()) {
    call.id = fmt::format("call{:05}", ++call_count_ % 100'000);  // Mistral's templates take nine letters and digits
    calls_.push_back(std::move(call));
  }
  return result;
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
