#include "src/ops/promotion.h"

#include <algorithm>
#include <cmath>

#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

int64_t Number::integer() const {
  if (const auto* integer = std::get_if<int64_t>(&value_)) return *integer;
  if (const auto* flag = std::get_if<bool>(&value_)) return *flag ? 1 : 0;
  const double value = std::get<double>(value_);
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  return value < -0x1p63 ? INT64_MIN : static_cast<int64_t>(value);
}

double Number::real() const { return is_real() ? std::get<double>(value_) : static_cast<double>(integer()); }

DType promote(DType a, DType b) {
  if (a == b || b == DType::boolean) return a;
  if (a == DType::boolean) return b;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  const auto bytes = [](DType dtype) { return dtype_bytes(dtype, 1); };
  if (is_floating(a)) {
    if (bytes(a) == bytes(b)) return DType::f32;  // f16 and bf16
    return bytes(a) > bytes(b) ? a : b;
  }
  if (bytes(a) == bytes(b)) return DType::i16;  // i8 and u8
  return bytes(a) > bytes(b) ? a : b;
}

DType promote(DType a, const Number& b) {
  if (is_floating(a) || b.is_bool()) return a;
  if (b.is_real()) return kDefaultFloat;
  return a == DType::boolean ? kDefaultInteger : a;
}

std::pair<Tensor, Tensor> promoted(const char* op, const Tensor& a, const Tensor& b) {
  require_plain(op, a);
  require_plain(op, b);
  if (a.dtype() == b.dtype()) return {a, b};
  const DType dtype = promote(a.dtype(), b.dtype());
  return {cast(a, dtype), cast(b, dtype)};
}

Tensor weak(const Tensor& x, const Number& number) {
  require_plain("weak", x);
  return full(x.device(), Shape{}, number, promote(x.dtype(), number));
}

}  // namespace gabbro
