#include "src/text/grammar/gbnf.h"

#include <algorithm>
#include <map>

#include "src/base/error.h"
#include "src/text/grammar/char_set.h"

namespace gabbro::text::grammar {
namespace {

constexpr int kDeepestParentheses = 100;
constexpr int64_t kMostRepetitions = 100'000;

bool is_name_character(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  GbnfParser(Rules& rules, std::string_view source) : rules_(rules), text_(characters_of(source)) {}

  RuleId parse() {
    skip_space(true);
    while (!ends()) definition();
    for (const auto& [name, rule] : known_) {
      if (rule.defined) continue;
      at_ = rule.first_use;
      refuse(fmt::format("the rule '{}' is not defined", name));
    }
    const auto root = known_.find("root");
    if (root == known_.end()) throw bad_input("the grammar has no rule 'root'");
    return root->second.id;
  }

 private:
  struct Known {
    RuleId id;
    size_t first_use;
    bool defined = false;
  };

  [[noreturn]] void refuse(std::string_view why) const {
    const size_t end = std::min(at_, text_.size());
    const auto line = std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(end), U'\n') + 1;
    const size_t start = end == 0 ? std::u32string::npos : text_.rfind(U'\n', end - 1);
    throw bad_input("grammar, line {}, column {}: {}", line, start == std::u32string::npos ? end + 1 : end - start,
                    why);
  }
  bool ends() const { return at_ >= text_.size(); }
  char32_t peek() const { return ends() ? U'\0' : text_[at_]; }
  bool skip(std::u32string_view what) {
    if (!std::u32string_view(text_).substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  void skip_space(bool newlines) {
    for (;; ++at_) {
      if (peek() == '#') {
        while (!ends() && peek() != '\n' && peek() != '\r') ++at_;
      }
      const char32_t c = peek();
      if (ends() || !(c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r')))) return;
    }
  }

  std::string name() {
    std::string result;
    while (is_name_character(peek())) result += static_cast<char>(text_[at_++]);
    if (result.empty()) refuse("expected the name of a rule");
    return result;
  }
  Known& rule_called(const std::string& name, size_t at) {
    const auto found = known_.find(name);
    if (found != known_.end()) return found->second;
    return known_.emplace(name, Known{rules_.add_rule(name), at}).first->second;
  }

  void definition() {
    const size_t begin = at_;
    const std::string rule_name = name();
    skip_space(false);
    if (!skip(U"::=")) refuse("expected ::=");
    skip_space(true);
    if (rule_called(rule_name, begin).defined) {
      at_ = begin;
      refuse(fmt::format("the rule '{}' is defined twice", rule_name));
    }
    const ExprId body = alternatives(false);
    Known& rule = rule_called(rule_name, begin);
    rule.defined = true;
    rules_.define(rule.id, body);
    if (!ends() && peek() != '\n' && peek() != '\r') refuse("expected the end of the line");
    skip_space(true);
  }

  ExprId alternatives(bool nested) {
    std::vector<ExprId> parts{sequence(nested)};
    while (peek() == '|') {
      ++at_;
      skip_space(true);
      parts.push_back(sequence(nested));
    }
    return rules_.choice(std::move(parts));
  }

  ExprId sequence(bool nested) {
    std::vector<ExprId> parts;
    for (;;) {
      const char32_t c = peek();
      ExprId part = 0;
      if (c == '"' && !ends()) {
        part = literal();
      } else if (c == '[') {
        part = character_class();
      } else if (c == '.') {
        ++at_;
        part = character(rules_, CharSet::all(), Encoding::kUtf8);
      } else if (c == '(') {
        part = group();
      } else if (c == '<' || c == '!') {
        refuse("tokens in <...> are not supported");
      } else if (is_name_character(c) && !begins_rule(nested)) {
        const size_t begin = at_;
        part = rules_.rule(rule_called(name(), begin).id);
      } else {
        return rules_.sequence(std::move(parts));
      }
      parts.push_back(repetitions(part));
      skip_space(nested);
    }
  }

  // Within parentheses a line may end, so that a name may be the next rule's if a parenthesis is missing.
  bool begins_rule(bool nested) const {
    size_t at = at_;
    while (at < text_.size() && is_name_character(text_[at])) ++at;
    while (nested && at < text_.size() && text_[at] == ' ') ++at;
    return std::u32string_view(text_).substr(at).starts_with(U"::=");
  }

  ExprId group() {
    if (++depth_ > kDeepestParentheses) refuse("parentheses are nested too deeply");
    ++at_;
    skip_space(true);
    const ExprId inner = alternatives(true);
    if (peek() != ')') refuse("expected )");
    ++at_;
    --depth_;
    return inner;
  }

  int32_t number() {
    int64_t value = -1;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = std::max(value, int64_t{0}) * 10 + static_cast<int64_t>(peek() - '0');
      if (value > kMostRepetitions) refuse(fmt::format("repetitions go up to {}", kMostRepetitions));
    }
    return static_cast<int32_t>(value);
  }

  ExprId repetitions(ExprId part) {
    for (;;) {
      if (skip(U"*")) {
        part = rules_.repeat(part, 0, kUnbounded);
      } else if (skip(U"+")) {
        part = rules_.repeat(part, 1, kUnbounded);
      } else if (skip(U"?")) {
        part = rules_.optional(part);
      } else if (skip(U"{")) {
        skip_space(true);
        const int32_t least = number();
        if (least < 0) refuse("expected a number");
        skip_space(true);
        int32_t most = least;
        if (skip(U",")) {
          skip_space(true);
          most = number();
          if (most < 0) most = kUnbounded;
          skip_space(true);
        }
        if (!skip(U"}")) refuse("expected }");
        if (least > most) refuse("the repetition's bounds are reversed");
        part = rules_.repeat(part, least, most);
      } else {
        return part;
      }
      skip_space(false);
    }
  }

  // A character of a literal or a class.
  uint32_t symbol() {
    if (ends() || peek() == '\n') refuse("the line ends within quotes or brackets");
    const char32_t c = text_[at_++];
    if (c != '\\') return static_cast<uint32_t>(c);
    const char32_t escaped = peek();
    ++at_;
    switch (escaped) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<uint32_t>(escaped);
      default:
        --at_;
        refuse("unknown escape");
    }
  }
  uint32_t hex(int digits) {
    uint64_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char32_t c = peek(), lower = c | 0x20;
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit && (lower < 'a' || lower > 'f')) refuse("expected a hexadecimal digit");
      value = value * 16 + static_cast<uint64_t>(is_digit ? c - '0' : lower - 'a' + 10);
    }
    if (value > kLastCharacter || (value >= 0xD800 && value <= 0xDFFF)) refuse("the escape is not a character");
    return static_cast<uint32_t>(value);
  }

  ExprId literal() {
    ++at_;
    std::u32string text;
    while (peek() != '"' || ends()) text += static_cast<char32_t>(symbol());
    ++at_;
    return rules_.literal(spell(text, Encoding::kUtf8));
  }

  ExprId character_class() {
    ++at_;
    const bool is_negated = skip(U"^");
    CharSet set;
    while (peek() != ']' || ends()) {
      const uint32_t first = symbol();
      uint32_t last = first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        last = symbol();
        if (last < first) refuse("the range's ends are reversed");
      }
      set.add(first, last);
    }
    ++at_;
    return character(rules_, is_negated ? set.complement() : set, Encoding::kUtf8);
  }

  Rules& rules_;
  std::u32string text_;
  std::map<std::string, Known> known_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

RuleId parse_gbnf(Rules& rules, std::string_view source) { return GbnfParser(rules, source).parse(); }

}  // namespace gabbro::text::grammar
