// Regular expressions: the part of ECMA 262's syntax that describes regular languages, as a tree. Look-around,
// back-references, word boundaries, flags and Unicode properties are refused with their position.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "src/text/grammar/char_set.h"

namespace gabbro::text::grammar {

struct Pattern {
  enum class Kind : uint8_t { kSet, kSequence, kChoice, kRepeat, kBegin, kEnd };
  Kind kind = Kind::kSequence;
  CharSet set{};
  int32_t least = 0, most = 0;  // kRepeat
  size_t position = 0;          // kBegin, kEnd: in the text
  std::vector<Pattern> parts{};
};

// `whole`: it describes the whole text; else some part of it, unless it begins with ^ or ends with $, as `pattern` in
// JSON Schema. The result has no kBegin and kEnd. Throws bad_input that names the position of the character.
Pattern parse_pattern(std::string_view regex, bool whole);

// Texts that match, as an expression.
ExprId pattern_expr(Rules& rules, const Pattern& pattern, Encoding encoding);

Pattern any_character();
Pattern literal_pattern(std::string_view utf8);
Pattern repeat_pattern(Pattern part, int32_t least, int32_t most);

}  // namespace gabbro::text::grammar
