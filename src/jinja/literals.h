// The literals of expressions: numbers and strings.
#pragma once

#include <string>
#include <string_view>

#include "src/jinja/value.h"

namespace gabbro::jinja {

// The number that starts at `begin`, and its length in bytes; length 0 where none does. Throws where an integer is
// longer than 64 bits.
struct NumberLiteral {
  size_t length = 0;
  Value value;
};
NumberLiteral read_number(std::string_view source, size_t begin, int line);

// The text between the quotes of a literal, with its escapes resolved as Python's unicode-escape codec does.
std::string unescape(std::string_view body, int line);

}  // namespace gabbro::jinja
