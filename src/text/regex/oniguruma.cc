#include "src/text/regex/oniguruma.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "src/base/error.h"

namespace gabbro::text {
namespace {

// PCRE2's own \s also takes U+180E, which Unicode took out of White_Space in version 6.3.
constexpr std::string_view kSpaceRanges =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kWordSets = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr std::string_view kHexDigits = "0-9a-fA-F";

constexpr std::pair<std::string_view, std::string_view> kPropertyNames[] = {
    {"letter", "L"},
    {"mark", "M"},
    {"number", "N"},
    {"punctuation", "P"},
    {"punct", "P"},
    {"symbol", "S"},
    {"separator", "Z"},
    {"other", "C"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"digit", "Nd"},
    {"space", "White_Space"},
    {"alpha", "Alphabetic"},
    {"upper", "Uppercase"},
    {"lower", "Lowercase"},
    {"whitespace", "White_Space"},
    {"any", "Any"},
    {"alphabetic", "Alphabetic"},
    {"emoji", "Emoji"},
    {"extendedpictographic", "Extended_Pictographic"},
    {"emojipresentation", "Emoji_Presentation"},
    {"emojimodifier", "Emoji_Modifier"},
    {"ideographic", "Ideographic"},
    {"uppercase", "Uppercase"},
    {"lowercase", "Lowercase"}};

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string translate() {
    while (at_ < pattern_.size()) step();
    return std::move(out_);
  }

 private:
  // The content of a class: one PCRE2 class, and expressions of one character that do not fit into it.
  struct Union {
    std::string content;
    std::vector<std::string> others;
    std::string expression() const {
      if (others.empty()) return content.empty() ? "(?!)" : "[" + content + "]";
      std::string all = "(?:";
      for (const std::string& other : others) all += other + "|";
      return content.empty() ? all.substr(0, all.size() - 1) + ")" : all + "[" + content + "])";
    }
  };

  [[noreturn]] void refuse(std::string_view what) const {
    throw bad_input("{}: regular expression '{}': {}", where_, pattern_, what);
  }
  bool more(size_t count = 1) const { return at_ + count <= pattern_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  void step() {
    const char c = peek();
    if (c == '\\') {
      out_ += escape(false);
    } else if (c == '[') {
      out_ += char_class(0);
    } else if (next_is("(*")) {
      refuse("'(*' is not supported");
    } else if (next_is("(?")) {
      group();
    } else if (next_is("{,")) {
      out_ += "{0,";
      at_ += 2;
    } else {
      out_ += c;
      ++at_;
    }
  }

  // (?m) of Ruby is (?s) of Perl.
  void group() {
    out_ += "(?";
    at_ += 2;
    size_t end = at_;
    while (end < pattern_.size() && (pattern_[end] == '-' || std::isalpha(static_cast<unsigned char>(pattern_[end]))))
      ++end;
    if (end == pattern_.size() || (pattern_[end] != ':' && pattern_[end] != ')')) {
      if (peek() == '~') refuse("absent expressions are not supported");
      return;  // a lookaround, a name, a comment
    }
    for (; at_ < end; ++at_) {
      if (peek() != '-' && peek() != 'i' && peek() != 'm' && peek() != 'x') refuse("unknown option of a group");
      out_ += peek() == 'm' ? 's' : peek();
    }
  }

  std::string property(bool negated) {
    const size_t close = pattern_.find('}', at_);
    if (peek() != '{' || close == pattern_.npos) refuse("\\p without {name}");
    std::string_view name = pattern_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    std::string plain;
    for (const char c : name) {
      if (c != ' ' && c != '_' && c != '-') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    const auto all_letters = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    if (plain.empty() || !std::all_of(plain.begin(), plain.end(), all_letters)) refuse("unknown property");
    const auto known = std::find_if(std::begin(kPropertyNames), std::end(kPropertyNames),
                                    [&](auto& entry) { return entry.first == plain; });
    std::string spelled;
    if (known != std::end(kPropertyNames)) {
      spelled = known->second;
    } else if (plain.size() <= 2) {
      spelled = static_cast<char>(std::toupper(static_cast<unsigned char>(plain[0])));
      spelled += plain.substr(1);
    } else {
      spelled = "sc:" + plain;  // Oniguruma's scripts are without extensions
    }
    return (negated ? "\\P{" : "\\p{") + spelled + "}";
  }

  // The escape at at_, in a class or outside.
  std::string escape(bool in_class) {
    if (!more(2)) refuse("a backslash at the end");
    const char c = pattern_[at_ + 1];
    at_ += 2;
    const auto set = [&](std::string_view content, bool negated) {
      if (in_class && !negated) return std::string(content);
      return (negated ? "[^" : "[") + std::string(content) + "]";
    };
    switch (c) {
      case 's':
        return set(kSpaceRanges, false);
      case 'S':
        return in_class ? R"(\P{White_Space})" : set(kSpaceRanges, true);
      case 'w':
        return set(kWordSets, false);
      case 'W':
        if (in_class) refuse("\\W in a class is not supported");
        return set(kWordSets, true);
      case 'h':
        return set(kHexDigits, false);
      case 'H':
        if (in_class) refuse("\\H in a class is not supported");
        return set(kHexDigits, true);
      case 'p':
        return property(false);
      case 'P':
        return property(true);
      case 'u': {
        std::string digits(pattern_.substr(at_, 4));
        const auto hex = [](char d) { return std::isxdigit(static_cast<unsigned char>(d)) != 0; };
        if (digits.size() != 4 || !std::all_of(digits.begin(), digits.end(), hex)) refuse("\\u without four digits");
        at_ += 4;
        return "\\x{" + digits + "}";
      }
      case 'b':
      case 'B': {
        if (in_class) return "\\x08";
        const std::string word = "[" + std::string(kWordSets) + "]";
        const std::string edge = "(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + ")";
        return c == 'b' ? "(?:" + edge + ")" : "(?!" + edge + ")";
      }
      case 't':
      case 'n':
      case 'r':
      case 'f':
      case 'v':
      case 'a':
      case 'e':
      case 'x':
      case 'd':
      case 'D':
        return c == 'v' ? "\\x0B" : std::string{'\\', c};
      case 'A':
      case 'z':
      case 'Z':
      case 'G':
      case 'R':
      case 'X':
      case 'k':
      case 'K':
        return in_class ? std::string(1, c) : std::string{'\\', c};
      default:
        break;
    }
    if (std::isdigit(static_cast<unsigned char>(c))) return {'\\', c};
    if (std::isalpha(static_cast<unsigned char>(c))) return std::string(1, c);  // an escaped letter is that letter
    if (static_cast<unsigned char>(c) >= 0x80) return std::string(1, c);        // the rest of the character follows
    return {'\\', c};
  }

  // The class at at_ as an expression of one character.
  std::string char_class(int depth) {
    if (depth > 20) refuse("classes are nested too deeply");
    ++at_;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    std::vector<Union> parts(1);  // of an intersection
    bool first = true;
    for (;; first = false) {
      if (!more()) refuse("a class is not closed");
      const char c = peek();
      if (c == ']' && !first) break;
      if (next_is("[:")) {
        posix(parts.back());
      } else if (c == '[') {
        nested(parts.back(), depth);
      } else if (next_is("&&")) {
        parts.emplace_back();
        at_ += 2;
      } else if (c == '\\') {
        parts.back().content += escape(true);
      } else {
        if (c == ']' || c == '[' || c == '^') parts.back().content += '\\';
        parts.back().content += c;
        ++at_;
      }
    }
    ++at_;
    if (parts.size() == 1 && parts[0].others.empty()) return (negated ? "[^" : "[") + parts[0].content + "]";
    std::string all;
    for (size_t i = 0; i + 1 < parts.size(); ++i) all += "(?=" + parts[i].expression() + ")";
    all += parts.back().expression();
    return negated ? "(?:(?!" + all + ")\\p{Any})" : "(?:" + all + ")";
  }

  void posix(Union& part) {
    const size_t close = pattern_.find(":]", at_);
    if (close == pattern_.npos) refuse("a class is not closed");
    part.content += pattern_.substr(at_, close + 2 - at_);
    at_ = close + 2;
  }

  void nested(Union& part, int depth) {
    const std::string inner = char_class(depth + 1);
    if (inner.starts_with("[") && !inner.starts_with("[^")) {
      part.content += inner.substr(1, inner.size() - 2);
    } else {
      part.others.push_back(inner);
    }
  }

  std::string_view pattern_;
  const std::string& where_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_oniguruma(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).translate();
}

}  // namespace gabbro::text
