#include "apps/cli/conversation.h"

#include <algorithm>

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
  std::vector<int32_t> tokens = encoder_.encode(kept_messages());
  const size_t before = first_;
  while (std::ssize(tokens) > room && next_turn() != 0) {
    first_ = next_turn();
    tokens = encoder_.encode(kept_messages());
  }
  if (first_ != before) {
    note_(fmt::format("the context of {} tokens is full: the {} oldest messages are left out from here on{}", context,
                      first_ - before, options_.system.empty() ? "" : ", the system message stays"));
  }
  return tokens;
}

GenerateResult Conversation::say(const std::string& text, const std::function<void(std::string_view)>& on_text,
                                 const std::atomic<bool>* cancel) {
  messages_.push_back({{"role", "user"}, {"content", text}});
  const size_t first = first_;
  const auto answered = [&](GenerateResult result) {
    messages_.push_back({{"role", "assistant"}, {"content", result.text}});
    return result;
  };
  try {
    if (!uses_template()) return answered(generate(*model_, {fitting_prompt(), options_.generate}, on_text, cancel));
    text::HarmonyChannels channels;
    const auto show = [&](const std::string& shown) {
      if (on_text && !shown.empty()) on_text(shown);
    };
    GenerateResult result = generate(
        *model_, {fitting_prompt(), options_.generate}, [&](std::string_view piece) { show(channels.feed(piece)); },
        cancel);
    show(channels.finish());
    result.text = channels.answer();
    return answered(std::move(result));
  } catch (...) {
    messages_.erase(messages_.size() - 1);
    first_ = first;
    throw;
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
