#include "src/text/models/byte_alphabet.h"

#include <array>

#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

constexpr size_t kLast =
    0x143;  // the last of the characters U+0100... that stand for the 68 bytes without a visible form

struct Alphabet {
  std::array<std::string, 256> spelling;
  std::array<int, kLast + 1> byte_of{};

  Alphabet() {
    byte_of.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool visible = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      const uint32_t character = visible ? byte : next++;
      append_utf8(spelling[byte], character);
      byte_of[character] = static_cast<int>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::string_view byte_spelling(uint8_t byte) { return alphabet().spelling[byte]; }

void append_spelling(std::string_view bytes, std::string& out) {
  const Alphabet& letters = alphabet();
  out.reserve(out.size() + bytes.size() * 2);
  for (const char byte : bytes) out += letters.spelling[static_cast<uint8_t>(byte)];
}

bool append_spelled_bytes(std::string_view spelled, std::string& out) {
  const Alphabet& letters = alphabet();
  const size_t before = out.size();
  for (size_t at = 0; at < spelled.size();) {
    const Character character = read_utf8(spelled, at);
    const int byte =
        character.length != 0 && character.code_point <= kLast ? letters.byte_of[character.code_point] : -1;
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(byte);
    at += character.length;
  }
  return true;
}

}  // namespace gabbro::text
