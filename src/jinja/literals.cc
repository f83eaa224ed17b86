#include "src/jinja/literals.h"

#include <charconv>
#include <cstdlib>

#include "src/jinja/runtime.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

bool digit_at(std::string_view source, size_t at, int base = 10) {
  return at < source.size() && digit_value(source[at]) < base;
}

// The end of digits of `base` with single underscores between them, from `at`.
size_t skip_digits(std::string_view source, size_t at, int base) {
  while (digit_at(source, at, base) || (at < source.size() && source[at] == '_' && digit_at(source, at + 1, base))) {
    ++at;
  }
  return at;
}

// The end of a float at `begin`, or `begin` where the digits there are an integer.
size_t float_end(std::string_view source, size_t begin) {
  if (begin > 0 && source[begin - 1] == '.') return begin;  // a.0.1 is two subscripts
  size_t at = skip_digits(source, begin, 10);
  bool is_float = false;
  if (at < source.size() && source[at] == '.' && digit_at(source, at + 1)) {
    at = skip_digits(source, at + 1, 10);
    is_float = true;
  }
  if (at < source.size() && (source[at] | 0x20) == 'e') {
    size_t exponent = at + 1;
    if (exponent < source.size() && (source[exponent] == '+' || source[exponent] == '-')) ++exponent;
    if (digit_at(source, exponent)) {
      at = skip_digits(source, exponent, 10);
      is_float = true;
    }
  }
  return is_float ? at : begin;
}

std::string without_underscores(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != '_') digits.push_back(c);
  }
  return digits;
}

// The code point of an escape with `count` hexadecimal digits at *at, which moves behind them.
char32_t read_hex(std::string_view body, size_t* at, size_t count, int line) {
  char32_t value = 0;
  for (size_t i = 0; i < count; ++i, ++*at) {
    if (!digit_at(body, *at, 16)) throw template_error(line, "truncated escape in a string");
    value = value * 16 + static_cast<char32_t>(digit_value(body[*at]));
  }
  if (value > 0x10ffff) throw template_error(line, "illegal Unicode character in a string");
  if (value >= 0xd800 && value < 0xe000) throw template_error(line, "a string holds half of a surrogate pair");
  return value;
}

char32_t read_octal(std::string_view body, size_t* at) {
  char32_t value = 0;
  for (int i = 0; i < 3 && digit_at(body, *at, 8); ++i, ++*at) {
    value = value * 8 + static_cast<char32_t>(digit_value(body[*at]));
  }
  return value;
}

// The escape after a backslash at *at.
void append_escape(std::string_view body, size_t* at, int line, std::string* out) {
  constexpr std::string_view kNames = "abfnrtv\\'\"";
  constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
  const char c = body[*at];
  if (const size_t simple = kNames.find(c); simple != std::string_view::npos) {
    out->push_back(kValues[simple]);
    ++*at;
  } else if (c == '\n') {
    ++*at;
  } else if (digit_at(body, *at, 8)) {
    append_code_point(out, read_octal(body, at));
  } else if (c == 'x' || c == 'u' || c == 'U') {
    ++*at;
    append_code_point(out, read_hex(body, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, line));
  } else if (c == 'N') {
    throw template_error(line, "characters by name (\\N) are not supported in a string");
  } else if (static_cast<unsigned char>(c) < 0x80) {
    out->push_back('\\');
    out->push_back(c);
    ++*at;
  } else {  // Jinja first writes the character as an escape, whose backslash this one then escapes
    const auto code_point = static_cast<uint32_t>(next_code_point(body, at));
    *out += code_point < 0x100     ? fmt::format("\\x{:02x}", code_point)
            : code_point < 0x10000 ? fmt::format("\\u{:04x}", code_point)
                                   : fmt::format("\\U{:08x}", code_point);
  }
}

}  // namespace

NumberLiteral read_number(std::string_view source, size_t begin, int line) {
  if (!digit_at(source, begin)) return {};
  if (const size_t end = float_end(source, begin); end > begin) {
    const std::string digits = without_underscores(source.substr(begin, end - begin));
    return {end - begin, Value(std::strtod(digits.c_str(), nullptr))};
  }
  int base = 10;
  size_t at = begin;
  if (source[begin] == '0' && begin + 1 < source.size()) {
    const char mark = static_cast<char>(source[begin + 1] | 0x20);
    const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    const bool underscore = begin + 2 < source.size() && source[begin + 2] == '_';
    if (marked && digit_at(source, begin + 2 + (underscore ? 1 : 0), marked)) {
      base = marked;
      at = begin + 2;
    }
  }
  // A number that starts with 0 is 0: Jinja reads 012 as two numbers, and then rejects them.
  const size_t end = base == 10 && source[begin] == '0' ? skip_digits(source, at, 1) : skip_digits(source, at, base);
  const std::string digits = without_underscores(source.substr(at, end - at));
  int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec != std::errc()) throw template_error(line, "integer literal is longer than 64 bits");
  return {end - begin, Value(value)};
}

std::string unescape(std::string_view body, int line) {
  std::string out;
  for (size_t at = 0; at < body.size();) {
    if (body[at] != '\\') {
      out.push_back(body[at++]);
    } else {
      ++at;
      append_escape(body, &at, line, &out);
    }
  }
  return out;
}

}  // namespace gabbro::jinja
