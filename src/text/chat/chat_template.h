// Chat templates: a conversation to the prompt of a model, as `transformers` renders it.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/jinja/template.h"

namespace gabbro::text {

class OllamaTemplate;  // ollama_template.h

class ChatTemplate {
 public:
  // Throws bad_input, "chat template: line 3: ...", for a template that Jinja does not accept.
  explicit ChatTemplate(std::string source);
  // A TEMPLATE of Ollama's, in the language of Go's text/template. Throws bad_input for one that is not followed.
  static ChatTemplate from_go(std::string source);

  // `tools` may be null. `extra` is an object (or null): bos_token, eos_token, documents, enable_thinking and whatever
  // else the template reads; it goes before the named arguments. Throws bad_input where the template fails, or says so
  // itself (raise_exception).
  // The content of message i is input of source i. All other strings are input too, but for the roles that every
  // conversation has (system, user, assistant, tool ...) and the variables whose names end with "_token".
  jinja::MarkedText render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                           bool add_generation_prompt, const nlohmann::ordered_json& extra) const;

  // Throws bad_input for messages that nest too deeply.
  static void check_nesting(const nlohmann::ordered_json& messages);

  // The time that strftime_now tells; without it, the present.
  void set_now(std::optional<std::time_t> now) { now_ = now; }

  const std::string& source() const { return source_; }

 private:
  ChatTemplate() = default;
  jinja::MarkedText render_go(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                              bool add_generation_prompt, const nlohmann::ordered_json& extra) const;

  std::string source_;
  // One of them.
  std::shared_ptr<const jinja::Template> template_;
  std::shared_ptr<const OllamaTemplate> ollama_;
  std::optional<std::time_t> now_;
};

}  // namespace gabbro::text
