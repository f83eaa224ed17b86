#include "gabbro/engine/chat.h"

#include "src/base/error.h"
#include "src/engine/model_text.h"
#include "src/engine/sampling_defaults.h"
#include "src/text/chat/chat_prompt.h"

namespace gabbro {

bool has_chat_template(const Engine& engine) { return engine.chat_template() != nullptr; }

std::vector<int32_t> chat_prompt(const Engine& engine, std::span<const ChatMessage> messages) {
  const text::ChatTemplate* chat_template = engine.chat_template();
  if (chat_template == nullptr) throw bad_input("{} has no chat template", engine.facts().name);
  auto json = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) json.push_back({{"role", message.role}, {"content", message.content}});
  const text::Tokenizer& tokenizer = engine.tokenizer();
  const text::ChatPrompt prompt =
      text::render_prompt(*chat_template, json, nullptr, true, template_variables(tokenizer));
  text::require_user_text(prompt, json);
  return encode_prompt(tokenizer, prompt.text);
}

std::vector<int32_t> encode(const Engine& engine, std::string_view text) { return engine.tokenizer().encode(text); }

std::string decode(const Engine& engine, std::span<const int32_t> ids) { return engine.tokenizer().decode(ids); }

SamplerOptions default_sampling(const Engine& engine) {
  SamplerOptions options;
  for (const SamplingDefault& value : engine.sampling_defaults().values) value.apply(options);
  return options;
}

}  // namespace gabbro
