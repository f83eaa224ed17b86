#include "src/text/grammar/char_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text::grammar {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;
// The last characters of 1, 2, 3 and 4 bytes.
constexpr uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, kLastCharacter};

std::string utf8_of(uint32_t character) {
  std::string bytes;
  append_utf8(bytes, character);
  return bytes;
}

// Sequences of byte ranges for [first, last], whose characters have the same number of bytes: cut where a last byte
// does not begin or end a whole block of 64.
void add_utf8(Rules& rules, uint32_t first, uint32_t last, std::vector<ExprId>& out) {
  for (uint32_t shift = 6; shift <= 18; shift += 6) {
    const uint32_t block = (uint32_t{1} << shift) - 1;
    if (last <= block || (first & ~block) == (last & ~block)) continue;
    if ((first & block) != 0) {
      add_utf8(rules, first, first | block, out);
      return add_utf8(rules, (first | block) + 1, last, out);
    }
    if ((last & block) != block) {
      add_utf8(rules, first, (last & ~block) - 1, out);
      return add_utf8(rules, last & ~block, last, out);
    }
  }
  const std::string low = utf8_of(first), high = utf8_of(last);
  std::vector<ExprId> parts;
  for (size_t i = 0; i < low.size(); ++i)
    parts.push_back(rules.bytes(byte_range(static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i]))));
  out.push_back(rules.sequence(std::move(parts)));
}

ExprId utf8_character(Rules& rules, const CharSet& set) {
  std::vector<ExprId> parts;
  ByteSet ascii;
  for (const auto& [first, last] : set.ranges()) {
    for (uint32_t c = first; c <= std::min(last, kLastOfLength[0]); ++c) ascii.set(c);
    uint32_t begin = kLastOfLength[0] + 1;
    for (const uint32_t end : kLastOfLength) {
      if (end < begin) continue;
      const uint32_t low = std::max(first, begin), high = std::min(last, end);
      if (low <= high) {
        if (low < kFirstSurrogate && high >= kFirstSurrogate) {
          add_utf8(rules, low, kFirstSurrogate - 1, parts);
          if (high > kLastSurrogate) add_utf8(rules, kLastSurrogate + 1, high, parts);
        } else if (low > kLastSurrogate || high < kFirstSurrogate) {
          add_utf8(rules, low, high, parts);
        } else if (high > kLastSurrogate) {
          add_utf8(rules, kLastSurrogate + 1, high, parts);
        }
      }
      begin = end + 1;
    }
  }
  if (ascii.any()) parts.push_back(rules.bytes(ascii));
  return rules.choice(std::move(parts));
}

std::string json_escape(uint32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\u{:04x}", c);
  }
}

// Every character that needs an escape.
ExprId all_escapes(Rules& rules) {
  const auto one_byte = [&](std::string_view bytes) {
    ByteSet set;
    for (const char byte : bytes) set.set(static_cast<uint8_t>(byte));
    return rules.bytes(set);
  };
  const ExprId code =
      rules.choice({rules.sequence({rules.literal("0"), one_byte("01234567bef")}),
                    rules.sequence({rules.literal("1"), one_byte("0123456789abcdef")}), rules.literal("7f")});
  return rules.sequence(
      {rules.literal("\\"), rules.choice({one_byte("\"\\bfnrt"), rules.sequence({rules.literal("u00"), code})})});
}

const CharSet& escaped_characters() {
  static const CharSet set{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}};
  return set;
}

}  // namespace

void CharSet::add(uint32_t first, uint32_t last) {
  if (first > last) return;
  // The ranges that [first, last] touches become one with it.
  const auto begin = std::ranges::find_if(ranges_, [&](const Range& r) { return r.last + 1 >= first; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= last + 1; ++end) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
  }
  ranges_.insert(ranges_.erase(begin, end), {first, last});
}

void CharSet::add(const CharSet& other) {
  for (const Range& range : other.ranges_) add(range.first, range.last);
}

CharSet CharSet::complement() const {
  CharSet result;
  uint32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCharacter) result.ranges_.push_back({next, kLastCharacter});
  return result;
}

CharSet CharSet::intersect(const CharSet& other) const {
  CharSet result;
  for (size_t i = 0, j = 0; i < ranges_.size() && j < other.ranges_.size();) {
    const Range &a = ranges_[i], &b = other.ranges_[j];
    const uint32_t first = std::max(a.first, b.first), last = std::min(a.last, b.last);
    if (first <= last) result.ranges_.push_back({first, last});
    a.last < b.last ? ++i : ++j;
  }
  return result;
}

bool CharSet::contains(uint32_t character) const {
  return std::ranges::any_of(ranges_, [&](const Range& r) { return r.first <= character && character <= r.last; });
}

ExprId character(Rules& rules, const CharSet& set, Encoding encoding) {
  if (encoding == Encoding::kUtf8) return utf8_character(rules, set);
  std::vector<ExprId> parts{utf8_character(rules, set.intersect(escaped_characters().complement()))};
  std::vector<std::string> escapes;
  const CharSet escaped = set.intersect(escaped_characters());
  if (escaped.ranges() == escaped_characters().ranges()) {
    parts.push_back(all_escapes(rules));
    return rules.choice(std::move(parts));
  }
  for (const auto& [first, last] : escaped.ranges()) {
    for (uint32_t c = first; c <= last; ++c) escapes.push_back(json_escape(c));
  }
  if (!escapes.empty()) parts.push_back(rules.one_of(std::move(escapes)));
  return rules.choice(std::move(parts));
}

std::string spell(std::u32string_view text, Encoding encoding) {
  std::string bytes;
  for (const char32_t c : text) {
    if (encoding == Encoding::kJson && escaped_characters().contains(c)) {
      bytes += json_escape(c);
    } else {
      append_utf8(bytes, c);
    }
  }
  return bytes;
}

std::u32string characters_of(std::string_view utf8) {
  std::u32string text;
  for (size_t at = 0; at < utf8.size();) {
    const Character one = read_utf8(utf8, at);
    if (one.length == 0) throw bad_input("the grammar is not UTF-8: byte {} begins no character", at);
    text += static_cast<char32_t>(one.code_point);
    at += one.length;
  }
  return text;
}

}  // namespace gabbro::text::grammar
