// str() and repr() of Python, and reading and writing its numbers.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/jinja/marks.h"
#include "src/jinja/operators.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

void append_repr(Runtime& runtime, const Value& value, std::string* out);

void append_items(Runtime& runtime, const std::vector<Value>& items, std::string* out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out->append(", ");
    append_repr(runtime, items[i], out);
  }
}

void append_repr(Runtime& runtime, const Value& value, std::string* out) {
  const Nested nested(runtime);
  runtime.step();
  if (out->size() > runtime.limits().output)
    throw runtime.error("a text is longer than the {} bytes allowed", runtime.limits().output);
  switch (value.kind()) {
    case Kind::kNone:
      out->append("None");
      break;
    case Kind::kBool:
      out->append(value.boolean() ? "True" : "False");
      break;
    case Kind::kInt:
      out->append(std::to_string(value.integer()));
      break;
    case Kind::kFloat:
      out->append(repr_float(value.number()));
      break;
    case Kind::kString:
      out->append(value.is_markup() ? fmt::format("Markup({})", repr_string(value.string()))
                                    : repr_string(value.string()));
      break;
    case Kind::kUndefined:
      out->append("Undefined");
      break;
    case Kind::kObject:
      out->append(value.object()->repr(runtime));
      break;
    case Kind::kList:
      out->push_back('[');
      append_items(runtime, value.items(), out);
      out->push_back(']');
      break;
    case Kind::kTuple:
      out->push_back('(');
      append_items(runtime, value.items(), out);
      out->append(value.items().size() == 1 ? ",)" : ")");
      break;
    case Kind::kDict:
      out->push_back('{');
      for (size_t i = 0; i < value.dict().size(); ++i) {
        const auto& [key, item] = value.dict().entries()[i];
        if (i > 0) out->append(", ");
        append_repr(runtime, key, out);
        out->append(": ");
        append_repr(runtime, item, out);
      }
      out->push_back('}');
      break;
  }
}

}  // namespace

std::string repr(Runtime& runtime, const Value& value) {
  std::string text;
  append_repr(runtime, value, &text);
  runtime.reserve_text(text.size());
  return text;
}

MarkedText to_text(Runtime& runtime, const Value& value) {
  if (value.is_string()) {
    runtime.scan(value.string());
    return value.text();
  }
  if (value.is_undefined()) return {};
  return mark_as(repr(runtime, value), {&value});
}

std::string repr_string(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, &at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out.append("\\n");
    } else if (c == '\r') {
      out.append("\\r");
    } else if (c == '\t') {
      out.append("\\t");
    } else if (is_printable(c) && !(c >= 0xd800 && c < 0xe000)) {
      out.append(text.substr(begin, at - begin));
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  out.push_back(quote);
  return out;
}

std::string repr_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  const size_t mark = shortest.find('e');
  const int exponent = std::atoi(std::string(shortest.substr(mark + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(shortest);  // e+16 and e-05 are Python's form too
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string text(buffer, fixed);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::optional<int64_t> parse_int(Runtime& runtime, std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) throw runtime.error("int() base must be >= 2 and <= 36, or 0");
  std::string_view rest = strip(text, kBoth);
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  int64_t prefix = 0;
  if (rest.size() > 1 && rest[0] == '0') {
    const char mark = static_cast<char>(rest[1] | 0x20);
    prefix = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  }
  const bool prefixed = prefix != 0 && (base == prefix || base == 0);
  if (prefixed) {
    rest.remove_prefix(2);
    if (rest.starts_with('_')) rest.remove_prefix(1);
  }
  const bool guessed = base == 0;
  if (guessed) base = prefixed ? prefix : 10;
  int64_t result = 0;
  char last = '_';
  bool all_zero = true;
  for (const char c : rest) {
    if (c == '_' && last != '_') {
      last = c;
      continue;
    }
    const int digit = c >= '0' && c <= '9'                     ? c - '0'
                      : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10
                                                               : 99;
    if (digit >= base) return {};
    if (__builtin_mul_overflow(result, base, &result) ||
        (negative ? __builtin_sub_overflow(result, digit, &result) : __builtin_add_overflow(result, digit, &result))) {
      throw runtime.error("integer overflow: integers are 64 bits wide here");
    }
    all_zero = all_zero && digit == 0;
    last = c;
  }
  if (last == '_') return {};
  if (guessed && !prefixed && rest.starts_with('0') && !all_zero) return {};
  return result;
}

std::optional<double> parse_float(std::string_view text) {
  const std::string_view trimmed = strip(text, kBoth);
  std::string digits;
  for (size_t i = 0; i < trimmed.size(); ++i) {
    if (trimmed[i] != '_') {
      digits.push_back(static_cast<char>(trimmed[i] >= 'A' && trimmed[i] <= 'Z' ? trimmed[i] | 0x20 : trimmed[i]));
      continue;
    }
    const auto digit_at = [&](size_t at) { return at < trimmed.size() && trimmed[at] >= '0' && trimmed[at] <= '9'; };
    if (i == 0 || !digit_at(i - 1) || !digit_at(i + 1)) return {};
  }
  std::string_view rest = digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty()) return {};
  if (rest == "inf" || rest == "infinity") return negative ? -INFINITY : INFINITY;
  if (rest == "nan") return NAN;
  if (!(rest[0] == '.' || (rest[0] >= '0' && rest[0] <= '9'))) return {};
  double value = 0;
  const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), value, std::chars_format::general);
  if (end != rest.data() + rest.size() || code == std::errc::invalid_argument) return {};
  if (code == std::errc::result_out_of_range) value = std::strtod(std::string(rest).c_str(), nullptr);
  return negative ? -value : value;
}

}  // namespace gabbro::jinja
