// UTF-8 text as Python's str sees it: code points, whitespace, case. A byte that is not part of valid UTF-8 counts
// as one separate code point and is kept unchanged.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gabbro::jinja {

// The code point at byte `position`, which moves behind it. A stray byte gives 0xDC00 + byte (as surrogateescape does).
char32_t next_code_point(std::string_view text, size_t* position);
void append_code_point(std::string* text, char32_t code_point);
std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);

size_t count_code_points(std::string_view text);
// The byte offset of code point `index`, or the size of the text where there are fewer.
size_t byte_offset(std::string_view text, size_t index);

bool is_space(char32_t code_point);
bool is_alpha(char32_t code_point);
bool is_decimal(char32_t code_point);
bool is_word(char32_t code_point);       // \w of Python's regular expressions
bool is_printable(char32_t code_point);  // repr() shows it unescaped
bool is_upper(char32_t code_point);
bool is_lower(char32_t code_point);
bool is_title(char32_t code_point);
bool is_digit(char32_t code_point);
bool is_numeric(char32_t code_point);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);  // str.title()
std::string swapcase(std::string_view text);
std::string casefold(std::string_view text);

// str.strip: bits 1 = left, 2 = right. Without `characters`, whitespace.
enum Side : int { kLeft = 1, kRight = 2, kBoth = 3 };
std::string_view strip(std::string_view text, int sides, const std::string* characters = nullptr);
// The lines as str.splitlines() cuts them.
void for_each_line(std::string_view text, bool keep_ends, const std::function<void(std::string_view)>& take);

}  // namespace gabbro::jinja
