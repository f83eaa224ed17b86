// Sets of characters (Unicode scalar values), and the bytes that spell them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/grammar/rules.h"

namespace gabbro::text::grammar {

inline constexpr uint32_t kLastCharacter = 0x10FFFF;

class CharSet {
 public:
  struct Range {
    uint32_t first, last;
    bool operator==(const Range&) const = default;
  };

  CharSet() = default;
  CharSet(std::initializer_list<Range> ranges) {
    for (const Range& range : ranges) add(range.first, range.last);
  }
  static CharSet all() { return {{0, kLastCharacter}}; }

  void add(uint32_t first, uint32_t last);
  void add(const CharSet& other);
  CharSet complement() const;
  CharSet intersect(const CharSet& other) const;
  bool contains(uint32_t character) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }  // ascending, apart from each other

 private:
  std::vector<Range> ranges_;
};

enum class Encoding : uint8_t {
  kUtf8,
  // Inside a JSON string. Each character has one spelling: an escape only for quotes, backslashes and controls, so that
  // a set of texts and its complement stay apart.
  kJson,
};

// One character of the set. Surrogates are left out.
ExprId character(Rules& rules, const CharSet& set, Encoding encoding);
// The bytes of a text in this encoding, without quotes.
std::string spell(std::u32string_view text, Encoding encoding);

// The characters of well-formed UTF-8; throws bad_input for other text.
std::u32string characters_of(std::string_view utf8);

}  // namespace gabbro::text::grammar
