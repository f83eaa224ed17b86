#include "src/text/grammar/pattern_parser.h"

#include "src/base/error.h"

namespace gabbro::text::grammar {
namespace {

constexpr int kDeepestGroup = 100;
constexpr int32_t kMostCount = 100'000;

const CharSet& digits() {
  static const CharSet set{{'0', '9'}};
  return set;
}
const CharSet& word_characters() {
  static const CharSet set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}
// ECMA 262: WhiteSpace and LineTerminator.
const CharSet& white_space() {
  static const CharSet set{{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                           {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}
const CharSet& line_ends() {
  static const CharSet set{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set;
}

// UTF-8 has no surrogates.
Pattern of_set(const CharSet& set) {
  static const CharSet all{{0, 0xD7FF}, {0xE000, kLastCharacter}};
  return {.kind = Pattern::Kind::kSet, .set = set.intersect(all)};
}

}  // namespace

void refuse_pattern(std::string_view regex, size_t at, std::string_view why) {
  throw bad_input("regular expression '{}', position {}: {}", regex.size() > 200 ? regex.substr(0, 200) : regex, at + 1,
                  why);
}

Pattern PatternParser::parse() {
  Pattern pattern = choice();
  if (!ends()) refuse("unexpected )");
  return pattern;
}

Pattern PatternParser::choice() {
  Pattern result{.kind = Pattern::Kind::kChoice};
  do result.parts.push_back(sequence());
  while (skip('|'));
  if (result.parts.size() > 1) return result;
  Pattern only = std::move(result.parts.front());
  return only;
}

Pattern PatternParser::sequence() {
  Pattern result;
  while (!ends() && peek() != '|' && peek() != ')') result.parts.push_back(quantified(atom()));
  return result;
}

Pattern PatternParser::atom() {
  const char32_t c = peek();
  if (c == '*' || c == '+' || c == '?') refuse("nothing to repeat");
  if (c == '(') return group();
  if (c == '[') return of_set(character_class());
  if (c == '\\') return of_set(escape(false));
  ++at_;
  if (c == '.') return of_set(line_ends().complement());
  if (c == '^') return {.kind = Pattern::Kind::kBegin, .position = at_ - 1};
  if (c == '$') return {.kind = Pattern::Kind::kEnd, .position = at_ - 1};
  return of_set({{c, c}});
}

Pattern PatternParser::group() {
  ++at_;
  if (++depth_ > kDeepestGroup) refuse("groups are nested too deeply");
  if (skip('?')) {
    skip('P');
    if (peek() == '=' || peek() == '!') refuse("look-ahead is not supported");
    if (skip('<')) {
      if (peek() == '=' || peek() == '!') refuse("look-behind is not supported");
      while (!ends() && peek() != '>') ++at_;
      if (!skip('>')) refuse("the group's name does not end");
    } else if (!skip(':')) {
      refuse("this kind of group is not supported");
    }
  }
  Pattern inner = choice();
  if (!skip(')')) refuse("missing )");
  --depth_;
  return inner;
}

int32_t PatternParser::number(size_t& at) const {
  int64_t value = -1;
  for (; at < text_.size() && text_[at] >= '0' && text_[at] <= '9'; ++at) {
    value = (value < 0 ? 0 : value) * 10 + static_cast<int64_t>(text_[at] - '0');
    if (value > kMostCount) refuse("repetitions go up to 100000");
  }
  return static_cast<int32_t>(value);
}

// {m}, {m,} or {m,n}; anything else is text, as in ECMA 262's annex B.
bool PatternParser::read_counts(int32_t& least, int32_t& most) {
  size_t at = at_ + 1;
  least = number(at);
  if (least < 0) return false;
  most = least;
  if (at < text_.size() && text_[at] == ',') {
    most = number(++at);
    if (most < 0) most = kUnbounded;
  }
  if (at >= text_.size() || text_[at] != '}') return false;
  if (least > most) refuse("the repetition's bounds are reversed");
  at_ = at + 1;
  return true;
}

Pattern PatternParser::quantified(Pattern part) {
  int32_t least = 0, most = kUnbounded;
  if (peek() == '{' && !ends()) {
    if (!read_counts(least, most)) return part;
  } else if (skip('*')) {
  } else if (skip('+')) {
    least = 1;
  } else if (skip('?')) {
    most = 1;
  } else {
    return part;
  }
  skip('?');  // a lazy repetition matches the same texts
  if (!ends() && (peek() == '*' || peek() == '+' || peek() == '?')) refuse("possessive repetition is not supported");
  if (part.kind == Pattern::Kind::kBegin || part.kind == Pattern::Kind::kEnd) refuse("nothing to repeat");
  return repeat_pattern(std::move(part), least, most);
}

uint32_t PatternParser::hex(size_t digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < digits; ++i, ++at_) {
    const char32_t c = peek();
    const bool is_digit = c >= '0' && c <= '9';
    const char32_t lower = c | 0x20;
    if (ends() || (!is_digit && (lower < 'a' || lower > 'f'))) refuse("expected a hexadecimal digit");
    value = value * 16 + static_cast<uint32_t>(is_digit ? c - '0' : lower - 'a' + 10);
  }
  return value;
}

uint32_t PatternParser::control_letter() {
  const char32_t letter = peek() | 0x20;
  if (ends() || letter < 'a' || letter > 'z') refuse("expected a letter after \\c");
  ++at_;
  return static_cast<uint32_t>(letter) - 'a' + 1;
}

// After \u: four digits, a pair of surrogates, or digits in braces.
uint32_t PatternParser::code_point() {
  if (skip('{')) {
    size_t digits = 0;
    while (at_ + digits < text_.size() && peek(digits) != '}') ++digits;
    if (digits == 0 || digits > 6) refuse("expected a code point in \\u{...}");
    const uint32_t value = hex(digits);
    if (!skip('}') || value > kLastCharacter) refuse("expected a code point in \\u{...}");
    return value;
  }
  const uint32_t unit = hex(4);
  if (unit < 0xD800 || unit >= 0xDC00 || peek() != '\\' || peek(1) != 'u') return unit;
  at_ += 2;
  const uint32_t low = hex(4);
  if (low < 0xDC00 || low > 0xDFFF) refuse("a surrogate has no second half");
  return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
}

CharSet PatternParser::escape(bool in_class) {
  ++at_;
  if (ends()) refuse("the pattern ends with a backslash");
  const char32_t c = text_[at_++];
  const auto one = [](uint32_t character) { return CharSet{{character, character}}; };
  switch (c) {
    case 'd':
      return digits();
    case 'D':
      return digits().complement();
    case 'w':
      return word_characters();
    case 'W':
      return word_characters().complement();
    case 's':
      return white_space();
    case 'S':
      return white_space().complement();
    case 'n':
      return one('\n');
    case 'r':
      return one('\r');
    case 't':
      return one('\t');
    case 'f':
      return one('\f');
    case 'v':
      return one('\v');
    case 'x':
      return one(hex(2));
    case 'c':
      return one(control_letter());
    case 'u':
      return one(code_point());
    case 'b':
      if (in_class) return one('\b');
      break;
    case '0':
      if (peek() < '0' || peek() > '9') return one(0);
      break;
    case '-':
      return one('-');
    default:
      if (!word_characters().contains(c)) return one(c);
  }
  at_ -= 2;
  if (c == 'b' || c == 'B') refuse("word boundaries are not supported");
  if (c == 'p' || c == 'P') refuse("Unicode properties are not supported");
  if (c == 'k' || (c >= '0' && c <= '9')) refuse("back-references are not supported");
  refuse("unknown escape");
}

CharSet PatternParser::character_class() {
  ++at_;
  const bool is_negated = skip('^');
  CharSet set;
  while (!ends() && peek() != ']') {
    if (peek() == '[' && peek(1) == ':') refuse("classes like [:alpha:] are not supported");
    const size_t begin = at_;
    CharSet low = peek() == '\\' ? escape(true) : CharSet{{text_[at_], text_[at_]}};
    if (at_ == begin) ++at_;
    if (peek() != '-' || peek(1) == ']' || at_ + 1 >= text_.size()) {
      set.add(low);
      continue;
    }
    ++at_;
    const size_t second = at_;
    const CharSet high = peek() == '\\' ? escape(true) : CharSet{{text_[at_], text_[at_]}};
    if (at_ == second) ++at_;
    const auto is_one = [](const CharSet& s) {
      return s.ranges().size() == 1 && s.ranges()[0].first == s.ranges()[0].last;
    };
    if (!is_one(low) || !is_one(high)) refuse("a range needs a character at both ends");
    if (low.ranges()[0].first > high.ranges()[0].first) refuse("the range's ends are reversed");
    set.add(low.ranges()[0].first, high.ranges()[0].first);
  }
  if (!skip(']')) refuse("missing ]");
  return is_negated ? set.complement() : set;
}

}  // namespace gabbro::text::grammar
