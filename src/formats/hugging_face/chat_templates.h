// The chat templates of a model's files, by name.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gabbro {

struct ChatTemplates {
  std::vector<std::pair<std::string, std::string>> sources;  // name and source

  const std::string* find(const std::string& name) const;  // null if there is none
  // As transformers chooses: with tools "tool_use" if it exists, else "default", else the only one. Nothing if
  // there is no template. Throws bad_input that names the templates of `where` if none of several is the default.
  std::optional<std::string> choose(bool with_tools, const std::string& where) const;
};

// The templates of a folder: chat_template.jinja and additional_chat_templates/NAME.jinja; without these chat_template
// of tokenizer_config.json, a text or a list of {"name", "template"}; without that chat_template of chat_template.json,
// which processors of images have.
ChatTemplates read_chat_templates(const std::string& folder);

// The one for conversations without tools.
std::optional<std::string> read_chat_template(const std::string& folder);

}  // namespace gabbro
