// UTF-8: code points in, code points out, and text with every broken part replaced by U+FFFD.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gabbro::text {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The length that a first byte announces; 1 for bytes that cannot be first.
constexpr size_t utf8_length(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

void append_utf8(std::string& out, uint32_t code_point);  // code_point <= 0x10FFFF

// The well-formed character at text[at] (Unicode 15, table 3-7): its length and code point. Length 0 where it is
// broken; then `broken` is the length of the maximal part that is to be replaced as one (at least 1), and `complete` is
// false if the text ended where more bytes could have made it whole.
struct Character {
  size_t length = 0;
  uint32_t code_point = 0;
  size_t broken = 0;
  bool complete = true;
};
Character read_utf8(std::string_view text, size_t at);

bool is_valid_utf8(std::string_view text);

// `text` as llama.cpp reads it before it looks for words: overlong forms count as what they encode, surrogates stay,
// every other broken byte is one U+FFFD. Returns `text` itself where it is well-formed, else a view of `buffer`.
std::string_view repair_utf8(std::string_view text, std::string& buffer);

}  // namespace gabbro::text
