// Text as files have it: byte order marks, UTF-16, and lines that end in CR LF.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gabbro {

// `text` after the byte order mark of UTF-8, if it begins with one. Throws bad_input that begins with `name` for a text
// in UTF-16 or UTF-32, which begins with its own mark.
std::string_view without_byte_order_mark(std::string_view text, std::string_view name);

// Throws bad_input where a text that begins with ASCII, as JSON does, is UTF-16 or UTF-32 without a mark.
void require_utf8(std::string_view text, std::string_view name);

// The text with "\n" for each "\r\n", as Python's text files are read.
std::string with_unix_lines(std::string text);

// The lines without their "\n" or "\r\n". A line break at the end begins no further line.
std::vector<std::string_view> split_lines(std::string_view text);

// read_file() of a text without its byte order mark.
std::string read_text_file(const std::string& path, size_t limit);

}  // namespace gabbro
