#include "apps/cli/conversation.h"

#include "src/engine/model_text.h"
#include "src/text/chat_template.h"

namespace gabbro::cli {

Conversation::Conversation(std::shared_ptr<Engine> engine, const GenerationOptions& options)
    : engine_(std::move(engine)),
      session_(engine_),
      options_(options),
      chat_template_(options.raw ? nullptr : engine_->chat_template()) {
  reset();
}

void Conversation::reset() {
  messages_ = nlohmann::ordered_json::array();
  if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
}

std::vector<int32_t> Conversation::prompt_tokens() const {
  const text::Tokenizer& tokenizer = engine_->tokenizer();
  std::string text;
  if (chat_template_ != nullptr) {
    text = chat_template_->render(messages_, nullptr, true, template_variables(tokenizer));
  } else {
    for (const auto& message : messages_) {
      text += message["content"].get<std::string>();
      if (message["role"] == "system") text += "\n\n";
    }
  }
  // Templates write bos themselves or leave it to the tokenizer: either way it is there once, and eos not at all.
  std::vector<int32_t> tokens = tokenizer.encode(text, {.add_special = false});
  const bool begins_with_bos = !tokens.empty() && tokens.front() == tokenizer.bos();
  if (tokenizer.adds_bos() && !begins_with_bos) tokens.insert(tokens.begin(), tokenizer.bos());
  return tokens;
}

GenerateResult Conversation::say(const std::string& text, const std::function<void(std::string_view)>& on_text,
                                 const std::atomic<bool>* cancel) {
  messages_.push_back({{"role", "user"}, {"content", text}});
  try {
    GenerateResult result = generate(session_, prompt_tokens(), options_.generate, on_text, cancel);
    messages_.push_back({{"role", "assistant"}, {"content", result.text}});
    return result;
  } catch (...) {
    messages_.erase(messages_.size() - 1);
    throw;
  }
}

}  // namespace gabbro::cli
