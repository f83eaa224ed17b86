#include "src/text/regex/text_pattern.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {

TextPattern make_pattern(const JsonNode& node) {
  if (const auto regex = node.find("Regex")) return TextPattern(Regex::from_file(regex->string(), regex->path()));
  return TextPattern(node.at("String").string());
}

size_t next_character(std::string_view text, size_t at) { return std::min(at + utf8_length(text[at]), text.size()); }

}  // namespace gabbro::text
