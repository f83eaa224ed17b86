#include "src/text/chat/go_template/lexer.h"

#include <algorithm>

#include "src/base/error.h"

namespace gabbro::text::go {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

bool is_space(char c) { return kSpaces.find(c) != std::string_view::npos; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Go's letters; bytes beyond ASCII are taken for letters.
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

void append_code_point(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

class ActionLexer {
 public:
  ActionLexer(const std::string& source, size_t at, int line) : source_(source), at_(at), line_(line) {}

  // Reads up to the closing braces; `trims` is set if these trim the text after them. Returns the place after them.
  size_t read(std::vector<Token>& tokens, bool& trims) {
    while (true) {
      const size_t start = at_;
      while (at_ < source_.size() && is_space(source_[at_])) ++at_;
      const bool spaced = at_ > start;
      if (at_ >= source_.size()) fail("the action is not closed");
      trims = spaced && rest().starts_with("-}}");
      if (trims || rest().starts_with("}}")) {
        at_ += trims ? 3 : 2;
        tokens.push_back({});
        return at_;
      }
      tokens.push_back(next());
      tokens.back().after_space = spaced;
    }
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  [[noreturn]] void fail(const std::string& what) const { throw bad_input("template: line {}: {}", line_, what); }

  std::string word() {
    const size_t start = at_;
    while (at_ < source_.size() && is_word(source_[at_])) ++at_;
    return source_.substr(start, at_ - start);
  }

  Token next() {
    const char c = peek();
    const auto sign = [&](size_t size) {
      at_ += size;
      return Token{Token::Kind::kSign, source_.substr(at_ - size, size)};
    };
    if (c == '.' && !is_digit(peek(1))) {
      if (!is_word(peek(1))) return sign(1);
      ++at_;
      return {Token::Kind::kField, word()};
    }
    if (c == '$') {
      ++at_;
      return {Token::Kind::kVariable, word()};
    }
    if (c == '"') return {Token::Kind::kString, quoted('"')};
    if (c == '\'') return {Token::Kind::kChar, quoted('\'')};
    if (c == '`') return {Token::Kind::kString, raw()};
    if (is_digit(c) || c == '.' || ((c == '-' || c == '+') && (is_digit(peek(1)) || peek(1) == '.'))) return number();
    if (is_word(c)) return {Token::Kind::kName, word()};
    if (c == ':' && peek(1) == '=') return sign(2);
    if (std::string_view("()|,=").find(c) != std::string_view::npos) return sign(1);
    fail(std::string("unexpected character '") + c + "'");
  }

  Token number() {
    const size_t start = at_++;
    while (is_word(peek()) || peek() == '.' || ((peek() == '-' || peek() == '+') && (source_[at_ - 1] | 0x20) == 'e'))
      ++at_;
    return {Token::Kind::kNumber, source_.substr(start, at_ - start)};
  }

  std::string raw() {
    const size_t end = source_.find('`', at_ + 1);
    if (end == std::string::npos) fail("a raw string is not closed");
    std::string text = source_.substr(at_ + 1, end - at_ - 1);
    std::erase(text, '\r');
    at_ = end + 1;
    return text;
  }

  uint32_t digits(size_t count, int base) {
    uint32_t code = 0;
    for (size_t i = 0; i < count; ++i, ++at_) {
      const char c = static_cast<char>(peek() | 0x20);
      const int digit = is_digit(peek()) ? peek() - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
      if (digit >= base) fail("an escape in a string is not valid");
      code = code * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
    }
    return code;
  }

  std::string quoted(char quote) {
    std::string text;
    ++at_;
    while (true) {
      if (at_ >= source_.size() || peek() == '\n') fail("a string is not closed");
      const char c = source_[at_++];
      if (c == quote) return text;
      if (c != '\\') {
        text += c;
        continue;
      }
      constexpr std::string_view kNames = "abfnrtv\\'\"", kBytes = "\a\b\f\n\r\t\v\\'\"";
      const char escape = peek();
      if (const size_t found = kNames.find(escape); escape != '\0' && found != std::string_view::npos) {
        ++at_;
        text += kBytes[found];
      } else if (is_digit(escape)) {
        text += static_cast<char>(digits(3, 8));
      } else if (escape == 'x' || escape == 'u' || escape == 'U') {
        ++at_;
        const uint32_t code = digits(escape == 'x' ? 2 : escape == 'u' ? 4 : 8, 16);
        if (code > 0x10ffff) fail("an escape in a string is not valid");
        escape == 'x' ? text += static_cast<char>(code) : (append_code_point(text, code), text);
      } else {
        fail("an escape in a string is not valid");
      }
    }
  }

  const std::string& source_;
  size_t at_;
  int line_;
};

void trim_end(std::string& text) {
  while (!text.empty() && is_space(text.back())) text.pop_back();
}

}  // namespace

std::vector<Piece> split_template(const std::string& source) {
  std::vector<Piece> pieces;
  const auto line_at = [&](size_t at) {
    return 1 + static_cast<int>(std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  };
  for (size_t at = 0; at < source.size();) {
    const size_t open = std::min(source.find("{{", at), source.size());
    Piece text{.text = source.substr(at, open - at), .line = line_at(at)};
    if (open == source.size()) {
      pieces.push_back(std::move(text));
      break;
    }
    size_t inside = open + 2;
    const bool trims_before =
        source.compare(inside, 1, "-") == 0 && inside + 1 < source.size() && is_space(source[inside + 1]);
    if (trims_before) {
      trim_end(text.text);
      ++inside;
    }
    pieces.push_back(std::move(text));
    bool trims_after = false;
    const size_t first = source.find_first_not_of(kSpaces, inside);
    if (source.compare(trims_before ? std::min(first, source.size()) : inside, 2, "/*") == 0) {
      const size_t end = source.find("*/", first);
      const size_t close = end == std::string::npos ? end : source.find_first_not_of(kSpaces, end + 2);
      trims_after = close != std::string::npos && close > end + 2 && source.compare(close, 3, "-}}") == 0;
      if (close == std::string::npos || (!trims_after && source.compare(close, 2, "}}") != 0) ||
          (!trims_after && close != end + 2))
        throw bad_input("template: line {}: a comment is not closed", line_at(open));
      at = close + (trims_after ? 3 : 2);
    } else {
      Piece action{.is_action = true, .line = line_at(open)};
      at = ActionLexer(source, inside, action.line).read(action.tokens, trims_after);
      pieces.push_back(std::move(action));
    }
    if (trims_after) at = std::min(source.find_first_not_of(kSpaces, at), source.size());
  }
  return pieces;
}

}  // namespace gabbro::text::go
