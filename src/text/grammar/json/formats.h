// The values of `format` in JSON Schema, as regular expressions.
#pragma once

#include <optional>
#include <string_view>

namespace gabbro::text::grammar {

// A pattern of the whole text; nothing: the format is not supported. Each describes a part of what its RFC allows that
// every validator takes.
std::optional<std::string_view> format_pattern(std::string_view name);

}  // namespace gabbro::text::grammar
