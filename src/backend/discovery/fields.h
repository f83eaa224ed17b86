// The few shapes of text that /sys and /proc use: numbers, "key value" lines, lists of words.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::discovery {

// A whole text as one number, decimal or hexadecimal with 0x.
std::optional<uint64_t> parse_number(std::string_view text);

// The parts between separators; empty ones are left out.
std::vector<std::string> split(std::string_view text, std::string_view separators);

// One entry per line "key<separator>value"; white space around both is dropped; the first of equal keys counts.
using Fields = std::map<std::string, std::string, std::less<>>;
Fields parse_fields(std::string_view text, char separator);

// The value of a key; empty: no such key.
std::string text_field(const Fields& fields, std::string_view key);
// The value of a key as a number; 0: no such key.
uint64_t number_field(const Fields& fields, std::string_view key);

}  // namespace gabbro::discovery
