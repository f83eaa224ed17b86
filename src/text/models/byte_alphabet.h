// GPT-2's alphabet: each byte is spelled as one visible character, so that vocabularies can be text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gabbro::text {

// The spelling of a byte, one or two bytes of UTF-8.
std::string_view byte_spelling(uint8_t byte);

void append_spelling(std::string_view bytes, std::string& out);

// Appends the bytes that `spelled` stands for; false (and `out` is as before) where a character is not of the alphabet.
bool append_spelled_bytes(std::string_view spelled, std::string& out);

}  // namespace gabbro::text
