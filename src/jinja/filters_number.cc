// Filters over numbers.
#include <cmath>
#include <cstdio>

#include "src/jinja/library.h"
#include "src/jinja/operators.h"

namespace gabbro::jinja {
namespace {

Value filter_abs(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "abs", args, {});
  return absolute(runtime, value);
}

Value filter_int(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "int", args, {"default", "base"});
  require_defined(runtime, value);
  if (value.is_integer()) return value.integer();
  if (value.kind() == Kind::kFloat) {
    return std::isnan(value.number()) ? bound.get(0, 0) : Value(truncate_to_int(runtime, value.number()));
  }
  if (!value.is_string()) return bound.get(0, 0);
  if (const auto number = parse_int(runtime, value.string(), bound.integer(1, 10))) return *number;
  const auto number = parse_float(value.string());  // so that "42.23"|int is 42
  return number && std::isfinite(*number) ? Value(truncate_to_int(runtime, *number)) : bound.get(0, 0);
}

Value filter_float(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "float", args, {"default"});
  require_defined(runtime, value);
  if (value.is_number()) return value.number();
  const auto number = value.is_string() ? parse_float(value.string()) : std::nullopt;
  return number ? Value(*number) : bound.get(0, 0.0);
}

// round(value, digits) of Python: correctly rounded in decimal, ties to even.
double round_float(Runtime& runtime, double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits >= 0) return std::strtod(fmt::format("{:.{}f}", value, digits).c_str(), nullptr);
  // Before the point: the digits of the exact decimal expansion decide.
  const std::string exact = fmt::format("{:.{}e}", value, 0);
  const int exponent = std::atoi(exact.substr(exact.find('e') + 1).c_str());
  const int64_t kept =
      std::max<int64_t>(exponent, static_cast<int64_t>(std::floor(std::log10(std::abs(value))))) + digits;
  if (value == 0 || kept < -1) return std::copysign(0.0, value);
  if (kept < 0)
    return std::abs(value) > 5 * std::pow(10.0, -static_cast<double>(digits) - 1)
               ? std::copysign(std::pow(10.0, -static_cast<double>(digits)), value)
               : std::copysign(0.0, value);
  const double result = std::strtod(fmt::format("{:.{}e}", value, kept).c_str(), nullptr);
  if (!std::isfinite(result)) throw runtime.error("rounded value too large to represent");
  return result;
}

int64_t round_integer(Runtime& runtime, int64_t value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return 0;
  int64_t unit = 1;
  for (int64_t i = digits; i < 0; ++i) unit *= 10;
  int64_t rest = value % unit;
  if (rest < 0) rest += unit;
  const int64_t quotient = value / unit - (value % unit < 0 ? 1 : 0);  // rounded down
  const bool up = rest > unit / 2 || (rest == unit / 2 && quotient % 2 != 0);
  int64_t result = 0;
  if (__builtin_add_overflow(value, up ? unit - rest : -rest, &result))
    throw runtime.error("integer overflow: integers are 64 bits wide here");
  return result;
}

Value filter_round(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "round", args, {"precision", "method"});
  const int64_t digits = bound.integer(0, 0);
  const std::string method = bound.string(1, "common");
  require_defined(runtime, value);
  if (method != "common" && method != "ceil" && method != "floor") {
    throw runtime.error("method must be common, ceil or floor");
  }
  if (!value.is_number()) throw runtime.error("type {} doesn't define __round__ method", value.type_name());
  if (method == "common") {
    return value.is_integer() ? Value(round_integer(runtime, value.integer(), digits))
                              : Value(round_float(runtime, value.number(), digits));
  }
  const Value scale = arithmetic(runtime, Arithmetic::kPower, 10, digits);
  const double scaled = arithmetic(runtime, Arithmetic::kMultiply, value, scale).number();
  const int64_t whole = truncate_to_int(runtime, method == "ceil" ? std::ceil(scaled) : std::floor(scaled));
  return arithmetic(runtime, Arithmetic::kDivide, whole, scale);
}

Value filter_sum(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "sum", args, {"attribute", "start"});
  Value sum = bound.get(1, 0);
  if (sum.is_string()) throw runtime.error("sum() can't sum strings");
  const AttributePath path(runtime, bound.get(0, {}));
  const auto items = iterate(runtime, value);
  for (Value item; items->next(runtime, &item);) {
    sum = arithmetic(runtime, Arithmetic::kAdd, sum, path.get(runtime, item));
  }
  return sum;
}

Value filter_filesizeformat(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound(runtime, "filesizeformat", args, {"binary"});
  const bool binary = bound.truth(0, false);
  require_defined(runtime, value);
  const auto parsed = value.is_string() ? parse_float(value.string()) : std::nullopt;
  if (!value.is_number() && !parsed) throw runtime.error("could not convert to float: {}", repr(runtime, value));
  const double bytes = parsed ? *parsed : value.number();
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return "1 Byte";
  if (bytes < base) return fmt::format("{} Bytes", truncate_to_int(runtime, bytes));
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  while (i + 1 < kPrefixes.size() && bytes >= unit) {
    unit *= base;
    ++i;
  }
  return fmt::format("{:.1f} {}{}B", base * bytes / unit, binary && i == 0 ? 'K' : kPrefixes[i], binary ? "i" : "");
}

constexpr FilterEntry kNumberFilters[] = {
    {"abs", filter_abs},     {"int", filter_int}, {"float", filter_float},
    {"round", filter_round}, {"sum", filter_sum}, {"filesizeformat", filter_filesizeformat},
};

}  // namespace

std::span<const FilterEntry> number_filters() { return kNumberFilters; }

}  // namespace gabbro::jinja
