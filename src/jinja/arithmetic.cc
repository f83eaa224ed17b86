// + - * / // % ** over numbers, texts and sequences, as Python computes them.
#include <cmath>

#include "src/jinja/operators.h"

namespace gabbro::jinja {
namespace {

constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

Error overflow(Runtime& runtime) { return runtime.error("integer overflow: integers are 64 bits wide here"); }

int64_t floor_divide(Runtime& runtime, int64_t a, int64_t b) {
  if (b == 0) throw runtime.error("integer division or modulo by zero");
  if (a == INT64_MIN && b == -1) throw overflow(runtime);
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t modulo(Runtime& runtime, int64_t a, int64_t b) {
  if (b == 0) throw runtime.error("integer modulo by zero");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

// CPython's float_floor_div: exact where the quotient is a whole number.
double floor_divide(double a, double b) {
  const double rest = modulo(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value power(Runtime& runtime, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw runtime.error("zero to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  int64_t result = 1;
  for (int64_t factor = base;;) {
    if ((exponent & 1) && __builtin_mul_overflow(result, factor, &result)) throw overflow(runtime);
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(factor, factor, &factor)) throw overflow(runtime);
  }
}

Value integers(Runtime& runtime, Arithmetic operation, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (operation) {
    case Arithmetic::kAdd:
      if (__builtin_add_overflow(a, b, &result)) throw overflow(runtime);
      return result;
    case Arithmetic::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) throw overflow(runtime);
      return result;
    case Arithmetic::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) throw overflow(runtime);
      return result;
    case Arithmetic::kDivide:
      if (b == 0) throw runtime.error("division by zero");
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case Arithmetic::kFloorDivide:
      return floor_divide(runtime, a, b);
    case Arithmetic::kModulo:
      return modulo(runtime, a, b);
    case Arithmetic::kPower:
      return power(runtime, a, b);
  }
  return {};
}

Value floats(Runtime& runtime, Arithmetic operation, double a, double b) {
  const bool divides =
      operation == Arithmetic::kDivide || operation == Arithmetic::kFloorDivide || operation == Arithmetic::kModulo;
  if (divides && b == 0) throw runtime.error("division by zero");
  switch (operation) {
    case Arithmetic::kAdd:
      return a + b;
    case Arithmetic::kSubtract:
      return a - b;
    case Arithmetic::kMultiply:
      return a * b;
    case Arithmetic::kDivide:
      return a / b;
    case Arithmetic::kFloorDivide:
      return floor_divide(a, b);
    case Arithmetic::kModulo:
      return modulo(a, b);
    case Arithmetic::kPower:
      break;
  }
  if (a == 0 && b < 0) throw runtime.error("zero to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    throw runtime.error("a negative number to a fractional power is complex");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) throw runtime.error("numerical result out of range");
  return result;
}

Value repeat(Runtime& runtime, const Value& value, int64_t count) {
  const size_t times = count > 0 ? static_cast<size_t>(count) : 0;
  const size_t size = value.is_string() ? value.string().size() : value.items().size();
  size_t total = 0;
  if (__builtin_mul_overflow(size, times, &total) || total > runtime.limits().memory) {
    throw runtime.error("a value repeated {} times is too large", count);
  }
  if (value.is_string()) {
    runtime.reserve_text(total);
    MarkedText text;
    for (size_t i = 0; total > 0 && i < times; ++i) text.append(value.text());
    return value.is_markup() ? Value::markup(std::move(text)) : Value(std::move(text));
  }
  runtime.step(total);
  runtime.reserve(total * sizeof(Value));
  std::vector<Value> items;
  items.reserve(total);
  for (size_t i = 0; total > 0 && i < times; ++i) items.insert(items.end(), value.items().begin(), value.items().end());
  return runtime.sequence(std::move(items), value.kind() == Kind::kTuple);
}

Value join(Runtime& runtime, const Value& left, const Value& right) {
  runtime.step(left.items().size() + right.items().size());
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return runtime.sequence(std::move(items), left.kind() == Kind::kTuple);
}

bool repeatable(const Value& value) { return value.is_string() || value.is_sequence(); }

}  // namespace

Value arithmetic(Runtime& runtime, Arithmetic operation, const Value& left, const Value& right) {
  if (left.is_string() && operation == Arithmetic::kModulo) {
    return runtime.text_like(left, format_percent(runtime, left, right));
  }
  require_defined(runtime, left);
  require_defined(runtime, right);
  if (left.is_integer() && right.is_integer()) return integers(runtime, operation, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return floats(runtime, operation, left.number(), right.number());
  if (operation == Arithmetic::kAdd && left.is_string() && right.is_string()) {
    return concatenate(runtime, left, right);
  }
  if (operation == Arithmetic::kAdd && left.is_sequence() && left.kind() == right.kind()) {
    return join(runtime, left, right);
  }
  if (operation == Arithmetic::kMultiply && repeatable(left) && right.is_integer()) {
    return repeat(runtime, left, right.integer());
  }
  if (operation == Arithmetic::kMultiply && left.is_integer() && repeatable(right)) {
    return repeat(runtime, right, left.integer());
  }
  throw runtime.error("unsupported operand type(s) for {}: '{}' and '{}'", kSigns[static_cast<int>(operation)],
                      left.type_name(), right.type_name());
}

Value negate(Runtime& runtime, const Value& value) {
  require_defined(runtime, value);
  if (value.kind() == Kind::kFloat) return -value.number();
  if (!value.is_integer()) throw runtime.error("bad operand type for unary -: '{}'", value.type_name());
  return integers(runtime, Arithmetic::kSubtract, 0, value.integer());
}

Value absolute(Runtime& runtime, const Value& value) {
  require_defined(runtime, value);
  if (value.kind() == Kind::kFloat) return std::abs(value.number());
  if (!value.is_integer()) throw runtime.error("bad operand type for abs(): '{}'", value.type_name());
  return value.integer() < 0 ? integers(runtime, Arithmetic::kSubtract, 0, value.integer()) : Value(value.integer());
}

int64_t to_index(Runtime& runtime, const Value& value) {
  require_defined(runtime, value);
  if (!value.is_integer()) throw runtime.error("'{}' object cannot be interpreted as an integer", value.type_name());
  return value.integer();
}

int64_t truncate_to_int(Runtime& runtime, double value) {
  if (!std::isfinite(value)) throw runtime.error("cannot convert float {} to integer", repr_float(value));
  if (!(value >= -0x1p63 && value < 0x1p63)) throw overflow(runtime);
  return static_cast<int64_t>(value);
}

}  // namespace gabbro::jinja
