#include "src/text/regex/pattern_parser.h"

#include <cctype>
#include <charconv>
#include <utility>

#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

// Each function reads at at_, and is false, or nullopt, where the pattern has what is not supported.
class PatternParser {
 public:
  explicit PatternParser(std::string_view pattern) : pattern_(pattern) {}

  using Sequence = PatternItem::Sequence;

  std::optional<std::vector<Sequence>> parse() {
    std::vector<Sequence> alternatives;
    if (!parse_alternatives(alternatives, 0) || more()) return std::nullopt;
    return alternatives;
  }

 private:
  bool more() const { return at_ < pattern_.size(); }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  bool parse_alternatives(std::vector<Sequence>& out, int depth) {
    constexpr int kDeepest = 8;
    if (depth > kDeepest) return false;
    do {
      Sequence sequence;
      while (more() && pattern_[at_] != '|' && pattern_[at_] != ')') {
        PatternItem item;
        if (!parse_atom(item, depth) || !parse_repeat(item)) return false;
        sequence.push_back(std::move(item));
      }
      out.push_back(std::move(sequence));
    } while (take("|"));
    return true;
  }

  bool parse_atom(PatternItem& item, int depth) {
    if (take("(")) return parse_group(item, depth);
    if (take("[")) return parse_class(item.set);
    if (take("\\")) {
      if (!parse_escape(item.set)) return false;
    } else if (take(".")) {
      item.set.add('\n', '\n');
      item.set.finish(true);
      return true;
    } else {
      if (std::string_view("^$*+?{").find(pattern_[at_]) != std::string_view::npos) return false;
      const uint32_t c = read_character();
      item.set.add(c, c);
    }
    if (ignore_case_ && !item.set.ignore_case()) return false;
    item.set.finish(false);
    return true;
  }

  bool parse_group(PatternItem& item, int depth) {
    const bool outside = ignore_case_;
    if (take("?i:")) {
      ignore_case_ = true;
    } else if (take("?!") || take("?=")) {
      const bool negative = pattern_[at_ - 1] == '!';
      std::vector<Sequence> inside;
      if (!parse_alternatives(inside, depth + 1) || !take(")")) return false;
      if (inside.size() != 1 || inside[0].size() != 1) return false;
      PatternItem& only = inside[0][0];
      if (only.kind != PatternItem::Kind::kRun || only.min != 1 || only.max != 1) return false;
      item.kind = negative ? PatternItem::Kind::kNotAhead : PatternItem::Kind::kAhead;
      item.set = std::move(only.set);
      return true;
    } else if (!take("?:") && more() && (pattern_[at_] == '?' || pattern_[at_] == '*')) {
      return false;
    }
    item.kind = PatternItem::Kind::kGroup;
    if (!parse_alternatives(item.alternatives, depth + 1) || !take(")")) return false;
    ignore_case_ = outside;
    return true;
  }

  bool parse_repeat(PatternItem& item) {
    if (!more()) return true;
    if (take("*")) {
      item.min = 0, item.max = kNoLimit;
    } else if (take("+")) {
      item.max = kNoLimit;
    } else if (take("?")) {
      item.min = 0;
    } else if (pattern_[at_] == '{') {
      if (!parse_counts(item)) return false;
    } else {
      return true;
    }
    if (more() && pattern_[at_] == '?') return false;  // not greedy
    item.possessive = take("+");
    if (more() && (pattern_[at_] == '*' || pattern_[at_] == '+' || pattern_[at_] == '{')) return false;
    if (item.kind == PatternItem::Kind::kGroup) return item.max == 1 && !item.possessive;
    return item.kind == PatternItem::Kind::kRun;
  }

  // {n}, {n,} or {n,m}
  bool parse_counts(PatternItem& item) {
    ++at_;
    const auto number = [&](uint32_t& value) {
      const char* begin = pattern_.data() + at_;
      const auto [end, error] = std::from_chars(begin, pattern_.data() + pattern_.size(), value);
      at_ += static_cast<size_t>(end - begin);
      return error == std::errc{};
    };
    if (!number(item.min)) return false;
    item.max = item.min;
    if (take(",")) {
      item.max = kNoLimit;
      if (more() && pattern_[at_] != '}' && !number(item.max)) return false;
    }
    return take("}") && item.max > 0 && item.min <= item.max;
  }

  uint32_t read_character() {
    const Character character = read_utf8(pattern_, at_);
    at_ += character.length + character.broken;
    return character.code_point;
  }

  // After a backslash.
  bool parse_escape(CharacterSet& set) {
    if (!more()) return false;
    const char c = pattern_[at_];
    if (c == 'p' || c == 'P') {
      const size_t close = pattern_.find('}', at_);
      if (at_ + 1 >= pattern_.size() || pattern_[at_ + 1] != '{' || close == pattern_.npos) return false;
      const std::string_view name = pattern_.substr(at_ + 2, close - at_ - 2);
      at_ = close + 1;
      return set.add_property(name, c == 'P');
    }
    if (c == 'd' || c == 'D') {
      ++at_;
      return set.add_property("Nd", c == 'D');
    }
    const auto code_point = escaped_character();
    if (code_point) set.add(*code_point, *code_point);
    return code_point.has_value();
  }

  std::optional<uint32_t> escaped_character() {
    constexpr std::pair<char, char> kControls[] = {{'t', '\t'}, {'n', '\n'}, {'r', '\r'}, {'f', '\f'}};
    for (const auto& [letter, control] : kControls) {
      if (pattern_[at_] != letter) continue;
      ++at_;
      return static_cast<uint32_t>(control);
    }
    if (take("x")) return hexadecimal();
    if (std::isalnum(static_cast<unsigned char>(pattern_[at_])) != 0) return std::nullopt;
    return read_character();
  }

  // \x{...}, or two digits
  std::optional<uint32_t> hexadecimal() {
    const bool braces = take("{");
    const size_t end = braces ? pattern_.find('}', at_) : at_ + 2;
    if (end > pattern_.size() || end == at_) return std::nullopt;
    uint32_t value = 0;
    const auto [parsed, error] = std::from_chars(pattern_.data() + at_, pattern_.data() + end, value, 16);
    if (error != std::errc{} || parsed != pattern_.data() + end) return std::nullopt;
    at_ = end + (braces ? 1 : 0);
    return value;
  }

  // After the opening bracket.
  bool parse_class(CharacterSet& set) {
    const bool negated = take("^");
    for (bool first = true; first || !take("]"); first = false) {
      if (!more()) return false;
      if (!parse_range(set)) return false;
    }
    if (ignore_case_ && !set.ignore_case()) return false;
    set.finish(negated);
    return true;
  }

  // A character, a set that an escape names, or a range of characters.
  bool parse_range(CharacterSet& set) {
    if (pattern_[at_] == '[' && at_ + 1 < pattern_.size() &&
        std::string_view(":.=").find(pattern_[at_ + 1]) != std::string_view::npos)
      return false;
    const std::string_view rest = pattern_.substr(at_);
    if (rest.size() > 1 && rest[0] == '\\' && std::string_view("pPdD").find(rest[1]) != std::string_view::npos) {
      ++at_;
      return parse_escape(set) && !(pattern_.substr(at_).starts_with("-") && !pattern_.substr(at_).starts_with("-]"));
    }
    const auto first = class_character();
    if (!first) return false;
    uint32_t last = *first;
    if (pattern_.substr(at_).starts_with("-") && !pattern_.substr(at_).starts_with("-]")) {
      ++at_;
      const auto end = class_character();
      if (!end || *end < *first) return false;
      last = *end;
    }
    set.add(*first, last);
    return true;
  }

  std::optional<uint32_t> class_character() {
    if (!more()) return std::nullopt;
    if (!take("\\")) return read_character();
    return more() ? escaped_character() : std::nullopt;
  }

  std::string_view pattern_;
  size_t at_ = 0;
  bool ignore_case_ = false;
};

}  // namespace

std::optional<std::vector<PatternItem::Sequence>> parse_simple_pattern(std::string_view pattern) {
  return PatternParser(pattern).parse();
}

}  // namespace gabbro::text
