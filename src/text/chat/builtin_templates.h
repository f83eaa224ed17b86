// Chat templates by name, for models whose files have none or a wrong one. Names as llama.cpp has them.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace gabbro::text {

struct BuiltinTemplate {
  std::string_view name;
  std::string_view source;  // Jinja; the text begins after the bos token
};

std::span<const BuiltinTemplate> builtin_templates();  // by name
std::optional<std::string_view> find_builtin_template(std::string_view name);

}  // namespace gabbro::text
