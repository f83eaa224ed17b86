#include "src/jinja/lexer.h"

#include <algorithm>

#include "src/jinja/literals.h"
#include "src/jinja/runtime.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

// One kind of newline, and none at the very end.
std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text.push_back(source[i]);
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)), text_(source_) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) lex_root();
    add(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  bool looking_at(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool at_space() const {
    size_t at = at_;
    return at_ < text_.size() && is_space(next_code_point(text_, &at));
  }
  void skip_spaces() {
    while (at_space()) {
      if (text_[at_] == '\n') ++line_;
      next_code_point(text_, &at_);
    }
  }
  Token& add(TokenKind kind, std::string text) {
    return tokens_.emplace_back(Token{.kind = kind, .line = line_, .text = std::move(text)});
  }

  // Data up to the next tag, then the tag.
  void lex_root() {
    size_t tag = at_;
    do {
      tag = text_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 == text_.size()) {
        add_data(text_.substr(at_), 0);
        at_ = text_.size();
        return;
      }
    } while (text_[tag + 1] != '%' && text_[tag + 1] != '{' && text_[tag + 1] != '#' && ++tag);
    const std::string_view data = text_.substr(at_, tag - at_);
    const char kind = text_[tag + 1];
    const char sign = tag + 2 < text_.size() && (text_[tag + 2] == '-' || text_[tag + 2] == '+') ? text_[tag + 2] : ' ';
    add_stripped(data, sign, kind == '{');
    at_ = tag + (sign == ' ' ? 2 : 3);
    line_starting_ = false;
    if (kind == '#') {
      skip_comment();
    } else if (kind == '{') {
      add(TokenKind::kVariableBegin, {});
      lex_tag(TokenKind::kVariableEnd);
    } else if (!lex_raw()) {
      add(TokenKind::kBlockBegin, {});
      lex_tag(TokenKind::kBlockEnd);
    }
  }

  void add_data(std::string_view data, int64_t stripped_lines) {
    if (!data.empty()) add(TokenKind::kData, std::string(data));
    line_ += static_cast<int>(std::count(data.begin(), data.end(), '\n') + stripped_lines);
  }

  // Data before a tag: "-" strips its whitespace, and without "+" a block's own indentation goes (lstrip_blocks).
  void add_stripped(std::string_view data, char sign, bool is_variable) {
    std::string_view kept = data;
    if (sign == '-') {
      kept = strip(data, kRight);
    } else if (sign != '+' && !is_variable) {
      const size_t newline = data.rfind('\n');
      const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_begin > 0 || line_starting_) && strip(data.substr(line_begin), kBoth).empty()) {
        kept = data.substr(0, line_begin);
      }
    }
    const std::string_view gone = data.substr(kept.size());
    add_data(kept, std::count(gone.begin(), gone.end(), '\n'));
  }

  // Behind the sign and the bracket that close a tag: "-" takes all whitespace, a block takes one newline
  // (trim_blocks).
  void close_tag(char sign, bool trims) {
    const size_t begin = at_;
    if (sign == '-') {
      skip_spaces();
    } else if (sign != '+' && trims && looking_at("\n")) {
      ++at_;
      ++line_;
    }
    line_starting_ = at_ > begin && text_[at_ - 1] == '\n';
  }

  void skip_comment() {
    const size_t end = text_.find("#}", at_);
    if (end == std::string_view::npos) throw template_error(line_, "Missing end of comment tag");
    const char sign = end > at_ && (text_[end - 1] == '-' || text_[end - 1] == '+') ? text_[end - 1] : ' ';
    const std::string_view body = text_.substr(at_, end - at_);
    line_ += static_cast<int>(std::count(body.begin(), body.end(), '\n'));
    at_ = end + 2;
    close_tag(sign, true);
  }

  // {% raw %} ... {% endraw %}; false where another block begins here.
  bool lex_raw() {
    const size_t begin = at_;
    const int begin_line = line_;
    skip_spaces();
    const bool is_raw = looking_at("raw");
    if (is_raw) {
      at_ += 3;
      skip_spaces();
      if (looking_at("%}")) return at_ += 2, lex_raw_body(), true;
      if (looking_at("-%}")) return at_ += 3, skip_spaces(), lex_raw_body(), true;
    }
    at_ = begin;
    line_ = begin_line;
    return false;
  }

  void lex_raw_body() {
    line_starting_ = text_[at_ - 1] == '\n';
    const size_t begin = at_;
    for (size_t tag = text_.find("{%", at_); tag != std::string_view::npos; tag = text_.find("{%", tag + 1)) {
      at_ = tag + 2;
      const int line = line_;
      const char open = looking_at("-") ? '-' : looking_at("+") ? '+' : ' ';
      if (open != ' ') ++at_;
      skip_spaces();
      if (looking_at("endraw")) {
        at_ += 6;
        skip_spaces();
        const char close = looking_at("-%}") ? '-' : looking_at("+%}") ? '+' : ' ';
        if (close != ' ') ++at_;
        if (looking_at("%}")) {
          const int inside = line_ - line;
          line_ = line;
          at_ += 2;
          add_stripped(text_.substr(begin, tag - begin), open, false);
          line_ += inside;
          close_tag(close, true);
          return;
        }
      }
      line_ = line;
    }
    throw template_error(line_, "Missing end of raw directive");
  }

  // The expression part of a tag, up to its closing bracket.
  void lex_tag(TokenKind end) {
    const bool is_block = end == TokenKind::kBlockEnd;
    const std::string_view bracket = is_block ? "%}" : "}}";
    std::string open;  // brackets
    while (true) {
      skip_spaces();
      if (at_ >= text_.size()) return;
      if (open.empty()) {
        const char sign = looking_at("-") ? '-' : is_block && looking_at("+") ? '+' : ' ';
        const size_t offset = sign == ' ' ? 0 : 1;
        if (text_.substr(at_ + offset).starts_with(bracket)) {
          add(end, {});
          at_ += offset + 2;
          close_tag(sign, is_block);
          return;
        }
      }
      lex_token(&open);
    }
  }

  void lex_token(std::string* open) {
    const char c = text_[at_];
    if (const NumberLiteral number = read_number(text_, at_, line_); number.length > 0) {
      const TokenKind kind = number.value.kind() == Kind::kFloat ? TokenKind::kFloat : TokenKind::kInteger;
      add(kind, std::string(text_.substr(at_, number.length))).number = number.value;
      at_ += number.length;
    } else if (size_t end = at_; is_word(next_code_point(text_, &end))) {
      lex_name();
    } else if (c == '\'' || c == '"') {
      lex_string(c);
    } else {
      lex_operator(open);
    }
  }

  void lex_name() {
    size_t end = at_;
    const char32_t first = next_code_point(text_, &end);
    if (first != '_' && !is_alpha(first)) throw template_error(line_, "Invalid character in identifier");
    for (size_t next = end; next < text_.size() && is_word(next_code_point(text_, &next));) end = next;
    add(TokenKind::kName, std::string(text_.substr(at_, end - at_)));
    at_ = end;
  }

  void lex_string(char quote) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size())
      throw template_error(line_, fmt::format("unexpected char {} (a string has no end)", quote));
    const std::string_view body = text_.substr(at_ + 1, end - at_ - 1);
    add(TokenKind::kString, unescape(body, line_));
    line_ += static_cast<int>(std::count(body.begin(), body.end(), '\n'));
    at_ = end + 1;
  }

  void lex_operator(std::string* open) {
    constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                               "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [&](std::string_view candidate) { return looking_at(candidate); });
    if (found == std::end(kOperators)) {
      size_t end = at_;
      next_code_point(text_, &end);
      throw template_error(line_, fmt::format("unexpected char '{}'", text_.substr(at_, end - at_)));
    }
    balance(*found, open);
    add(TokenKind::kOperator, std::string(*found));
    at_ += found->size();
  }

  void balance(std::string_view bracket, std::string* open) const {
    if (bracket == "(" || bracket == "[" || bracket == "{") {
      open->push_back(bracket == "(" ? ')' : bracket == "[" ? ']' : '}');
    } else if (bracket == ")" || bracket == "]" || bracket == "}") {
      if (open->empty()) throw template_error(line_, fmt::format("unexpected '{}'", bracket));
      const char expected = open->back();
      open->pop_back();
      if (expected != bracket[0]) {
        throw template_error(line_, fmt::format("unexpected '{}', expected '{}'", bracket, expected));
      }
    }
  }

  std::string source_;
  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last token ended a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "template data / text";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kEnd:
      return "end of template";
    default:
      return token.text;
  }
}

}  // namespace gabbro::jinja
