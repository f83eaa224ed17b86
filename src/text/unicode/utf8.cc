#include "src/text/unicode/utf8.h"

#include <cstring>

namespace gabbro::text {
namespace {

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

size_t ascii_prefix(std::string_view text, size_t at) {
  for (uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & 0x8080808080808080) != 0) break;
  }
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

void append_utf8(std::string& out, uint32_t code_point) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += {static_cast<char>(0xC0 | (code_point >> 6)), tail(0)};
  } else if (code_point < 0x10000) {
    out += {static_cast<char>(0xE0 | (code_point >> 12)), tail(6), tail(0)};
  } else {
    out += {static_cast<char>(0xF0 | (code_point >> 18)), tail(12), tail(6), tail(0)};
  }
}

Character read_utf8(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return {.length = 1, .code_point = first};
  if (first < 0xC2 || first > 0xF4) return {.broken = 1};
  const size_t length = utf8_length(text[at]);
  uint32_t code_point = first & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    if (at + i == text.size()) return {.broken = i, .complete = false};
    const auto byte = static_cast<uint8_t>(text[at + i]);
    // The second byte has a narrower range after E0 and F0 (overlong), ED (surrogates) and F4 (beyond U+10FFFF).
    const uint8_t low = i > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = i > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (byte < low || byte > high) return {.broken = i};
    code_point = code_point << 6 | (byte & 0x3FU);
  }
  return {.length = length, .code_point = code_point};
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = ascii_prefix(text, 0); at < text.size(); at = ascii_prefix(text, at)) {
    const Character character = read_utf8(text, at);
    if (character.length == 0) return false;
    at += character.length;
  }
  return true;
}

std::string_view repair_utf8(std::string_view text, std::string& buffer) {
  if (is_valid_utf8(text)) return text;
  buffer.clear();
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<uint8_t>(text[at]);
    const size_t length = first >= 0xF8 ? 1 : utf8_length(text[at]);
    uint32_t code_point = length == 1 ? first : first & (0x7FU >> length);
    bool sound = length > 1 || first < 0x80;
    for (size_t i = 1; sound && i < length; ++i) {
      sound = at + i < text.size() && is_continuation(text[at + i]);
      if (sound) code_point = code_point << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3FU);
    }
    sound = sound && code_point <= 0x10FFFF;
    if (sound) {
      append_utf8(buffer, code_point);
    } else {
      buffer += kReplacement;
    }
    at += sound ? length : 1;
  }
  return buffer;
}

}  // namespace gabbro::text
