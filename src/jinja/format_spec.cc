#include "src/jinja/format_spec.h"

#include <algorithm>
#include <cmath>

#include "src/jinja/library.h"
#include "src/jinja/operators.h"
#include "src/jinja/utf8.h"

namespace gabbro::jinja {
namespace {

constexpr int64_t kMaxPrecision = 1000;  // more digits than any float has

std::string group_digits(const std::string& digits, char separator, size_t size) {
  std::string result;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) result += separator;
    result += digits[i];
  }
  return result;
}

std::string integer_digits(uint64_t value, const FormatSpec& spec) {
  switch (spec.type) {
    case 'b':
      return fmt::format("{:b}", value);
    case 'o':
      return fmt::format("{:o}", value);
    case 'x':
      return fmt::format("{:x}", value);
    case 'X':
      return fmt::format("{:X}", value);
    default:
      return fmt::format("{}", value);
  }
}

// The digits of a finite, positive float, without sign.
std::string float_digits(Runtime& runtime, double value, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision) throw runtime.error("a precision of {} is too large", spec.precision);
  const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
  switch (spec.type) {
    case 'f':
    case 'F':
      return spec.alternate ? fmt::format("{:#.{}f}", value, precision) : fmt::format("{:.{}f}", value, precision);
    case '%':
      return fmt::format("{:.{}f}", value * 100, precision) + "%";
    case 'e':
      return spec.alternate ? fmt::format("{:#.{}e}", value, precision) : fmt::format("{:.{}e}", value, precision);
    case 'E':
      return spec.alternate ? fmt::format("{:#.{}E}", value, precision) : fmt::format("{:.{}E}", value, precision);
    case 'g':
    case 'n':
      return spec.alternate ? fmt::format("{:#.{}g}", value, std::max<int64_t>(1, precision))
                            : fmt::format("{:.{}g}", value, std::max<int64_t>(1, precision));
    case 'G':
      return fmt::format("{:.{}G}", value, std::max<int64_t>(1, precision));
    default:
      break;
  }
  if (spec.precision < 0) return repr_float(value);
  std::string text = fmt::format("{:.{}g}", value, std::max<int64_t>(1, precision));
  if (text.find_first_of(".e") == std::string::npos) {
    // Without a type there is a digit behind the point, or an exponent where that would be one digit too many.
    text = static_cast<int64_t>(text.size()) < std::max<int64_t>(1, precision) ? text + ".0"
           : value >= 10 || precision <= 1 ? fmt::format("{:.{}e}", value, std::max<int64_t>(1, precision) - 1)
                                           : text;
  }
  return text;
}

std::string apply_sign(bool negative, char sign) { return negative ? "-" : sign == '-' ? "" : std::string(1, sign); }

// Puts sign, prefix and digits into the width: '=' pads between sign and digits.
std::string lay_out(Runtime& runtime, const std::string& sign, const std::string& digits, const FormatSpec& spec) {
  if (spec.alignment == '=') {
    const auto width = std::max<int64_t>(0, spec.width - static_cast<int64_t>(sign.size()));
    return sign + pad_text(runtime, digits, width, '>', spec.fill).bytes();
  }
  const char alignment = spec.alignment == 0 ? '>' : spec.alignment == '^' ? 'c' : spec.alignment;
  return pad_text(runtime, sign + digits, spec.width, alignment, spec.fill).bytes();
}

std::string format_integer(Runtime& runtime, int64_t value, const FormatSpec& spec) {
  if (spec.type == 'c') {
    if (value < 0 || value > 0x10ffff) throw runtime.error("%c arg not in range(0x110000)");
    std::string text;
    append_code_point(&text, static_cast<char32_t>(value));
    return lay_out(runtime, "", text, spec);
  }
  const uint64_t magnitude = value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  std::string digits = integer_digits(magnitude, spec);
  if (spec.grouping) digits = group_digits(digits, spec.grouping, spec.type == 0 || spec.type == 'd' ? 3 : 4);
  std::string sign = apply_sign(value < 0, spec.sign);
  if (spec.alternate && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b')) {
    sign += std::string("0") + spec.type;
  }
  return lay_out(runtime, sign, digits, spec);
}

std::string format_float(Runtime& runtime, double value, const FormatSpec& spec) {
  std::string digits;
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
    if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G') digits = upper(digits);
    if (spec.type == '%') digits += '%';
  } else {
    digits = float_digits(runtime, std::abs(value), spec);
    if (spec.grouping) {
      const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
      digits = group_digits(digits.substr(0, whole), spec.grouping, 3) + digits.substr(whole);
    }
  }
  return lay_out(runtime, apply_sign(std::signbit(value) && !std::isnan(value), spec.sign), digits, spec);
}

std::string format_text(Runtime& runtime, std::string_view text, const FormatSpec& spec) {
  if (spec.type != 0 && spec.type != 's')
    throw runtime.error("Unknown format code '{}' for object of type 'str'", spec.type);
  if (spec.precision >= 0) text = text.substr(0, byte_offset(text, static_cast<size_t>(spec.precision)));
  const char alignment = spec.alignment == 0 ? '<' : spec.alignment == '^' ? 'c' : spec.alignment;
  if (alignment == '=') throw runtime.error("'=' alignment not allowed in string format specifier");
  return pad_text(runtime, std::string(text), spec.width, alignment, spec.fill).bytes();
}

int64_t read_digits(Runtime& runtime, const std::string& text, size_t* at) {
  int64_t value = 0;
  for (; *at < text.size() && text[*at] >= '0' && text[*at] <= '9'; ++*at) {
    value = value * 10 + (text[*at] - '0');
    if (value > INT32_MAX) throw runtime.error("Too many decimal digits in format string");
  }
  return value;
}

}  // namespace

std::string format_value(Runtime& runtime, const Value& value, const FormatSpec& spec) {
  constexpr std::string_view kIntegerTypes = "bcdoxX";
  constexpr std::string_view kFloatTypes = "eEfFgGn%";
  const bool plain = spec.type == 0;
  if (value.is_string()) return format_text(runtime, value.string(), spec);
  if (value.kind() == Kind::kBool && plain && spec.width == 0) return to_text(runtime, value).bytes();
  if (value.is_integer() && (plain || spec.type == 'n' || kIntegerTypes.find(spec.type) != std::string_view::npos)) {
    if (spec.precision >= 0) throw runtime.error("Precision not allowed in integer format specifier");
    return format_integer(runtime, value.integer(), spec);
  }
  if (value.is_number() && (plain || kFloatTypes.find(spec.type) != std::string_view::npos)) {
    return format_float(runtime, value.number(), spec);
  }
  throw runtime.error("Unknown format code '{}' for object of type '{}'", spec.type, value.type_name());
}

FormatSpec parse_format_spec(Runtime& runtime, const std::string& text) {
  constexpr std::string_view kAlignments = "<>^=";
  FormatSpec spec;
  size_t at = 0;
  size_t fill_end = 0;
  if (!text.empty()) next_code_point(text, &fill_end);
  if (fill_end > 0 && fill_end < text.size() && kAlignments.find(text[fill_end]) != std::string_view::npos) {
    spec.fill = text.substr(0, fill_end);
    spec.alignment = text[fill_end];
    at = fill_end + 1;
  } else if (!text.empty() && kAlignments.find(text[0]) != std::string_view::npos) {
    spec.alignment = text[at++];
  }
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[at++];
  if (peek() == '#') {
    spec.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    if (spec.alignment == 0) {
      spec.fill = "0";
      spec.alignment = '=';
    }
    ++at;
  }
  spec.width = read_digits(runtime, text, &at);
  if (peek() == ',' || peek() == '_') spec.grouping = text[at++];
  if (peek() == '.') {
    const size_t begin = ++at;
    spec.precision = read_digits(runtime, text, &at);
    if (at == begin) throw runtime.error("Format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) throw runtime.error("Invalid format specifier '{}'", text);
  return spec;
}

}  // namespace gabbro::jinja
