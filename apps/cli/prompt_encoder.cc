#include "apps/cli/prompt_encoder.h"

#include "apps/cli/chat_template_argument.h"
#include "src/engine/model_text.h"
#include "src/text/chat/chat_prompt.h"
#include "src/text/chat/generic_tools.h"
#include "src/text/chat/thoughts.h"

namespace gabbro::cli {

PromptEncoder::PromptEncoder(std::shared_ptr<ModelService> model, const GenerationOptions& options,
                             std::function<void(const std::string&)> note)
    : model_(std::move(model)), note_(std::move(note)), parse_special_(options.parse_special) {
  if (!options.chat_template.empty()) {
    own_template_ = std::make_unique<const text::ChatTemplate>(read_template_argument(options.chat_template));
    chat_template_ = own_template_.get();
  } else if (!options.raw) {
    chat_template_ = model_->chat_template();
  }
  variables_ = template_variables(model_->tokenizer());
  for (const std::string& variable : options.template_variables)
    add_template_variable(variables_, variable, "--template-var");
}

const text::ChatTemplate* PromptEncoder::tool_template() const {
  return chat_template_ != nullptr && own_template_ == nullptr ? model_->chat_template(true) : chat_template_;
}

std::vector<int32_t> PromptEncoder::encode(const nlohmann::ordered_json& messages,
                                           const nlohmann::ordered_json& tools) {
  jinja::MarkedText text;
  const bool with_tools = tools.is_array() && !tools.empty();
  const text::ChatTemplate* const used = with_tools ? tool_template() : chat_template_;
  if (used != nullptr) {
    const bool is_generic = with_tools && generic_tools_;
    const nlohmann::ordered_json shown = is_generic ? text::with_generic_tools(messages, tools) : messages;
    text::ChatPrompt prompt = text::render_prompt(*used, shown, is_generic ? nullptr : tools, true, variables_);
    text::require_user_text(prompt, shown);
    if (with_tools && !is_generic && !text::shows_tools(*used, messages, tools, variables_))
      prompt.notes.emplace_back("the chat template does not show tools: the model is not told of them");
    for (const std::string& note : prompt.notes) {
      if (noted_.insert(note).second) note_(note);
    }
    text = std::move(prompt.text);
  } else {
    for (const auto& message : messages) {
      const std::string content = message["content"].get<std::string>();
      text.append(parse_special_ ? jinja::MarkedText(content) : jinja::MarkedText::input(content));
      if (message["role"] == "system") text.append("\n\n");
    }
  }
  opens_thoughts_ = used != nullptr && text::ends_with_open_thought(text.bytes(), text::thought_form(used->source()));
  return encode_prompt(model_->tokenizer(), text);
}

}  // namespace gabbro::cli
