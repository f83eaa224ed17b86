// Further elementwise functions of numbers.
#include <limits>
#include <numbers>

#include "src/ops/autocast.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/promotion.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

Tensor of_float(const Op& op, const Tensor& x) {
  require_plain(op.name, x);
  const Tensor argument = for_sum(x);
  return record(op, {cast(argument, as_float(argument.dtype()))});
}

// Integers are whole already.
Tensor rounded(const Op& op, const Tensor& x) {
  require_dtype(op.name, x, kNumber);
  return is_floating(x.dtype()) ? record(op, {x}) : x;
}

Tensor binary_float(const Op& op, const Tensor& a, const Tensor& b) {
  const auto [x, y] = promoted(op.name, a, b);
  return record_binary(op, cast(x, as_float(x.dtype())), cast(y, as_float(y.dtype())), kNumber);
}

// bool goes to `of_flags`.
Tensor bitwise(const Op& op, Tensor (*of_flags)(const Tensor&, const Tensor&), const Tensor& a, const Tensor& b) {
  require_plain(op.name, a);
  require_plain(op.name, b);
  const bool flags = a.dtype() == DType::boolean && b.dtype() == DType::boolean;
  return flags ? of_flags(a, b) : record_binary(op, a, b, kInteger);
}

// bool of x's shape that is the same everywhere.
Tensor everywhere(const Tensor& x, bool value) { return full(x.device(), x.shape(), value, DType::boolean); }

Tensor infinity(const Tensor& x) { return number_like(x, std::numeric_limits<double>::infinity()); }

}  // namespace

const Op kCeil = elementwise_op("ceil", no_gradient);
const Op kRound = elementwise_op("round", no_gradient);
const Op kTrunc = elementwise_op("trunc", no_gradient);
const Op kSign = elementwise_op("sign", no_gradient);
// e^x, which y + 1 has no digits of where x is far below 0.
const Op kExpm1 = elementwise_op("expm1", [](const GradientArgs& a) {
  return elementwise_gradient(a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * exp(x); });
});
const Op kLog1p = elementwise_op("log1p", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy / (x + number_like(x, 1)); });
});
const Op kLog2 = elementwise_op("log2", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy / (x * number_like(x, std::numbers::ln2)); });
});
const Op kLog10 = elementwise_op("log10", [](const GradientArgs& a) {
  return elementwise_gradient(a, [](const Tensor& x, const Tensor&, const Tensor& dy) {
    return dy / (x * number_like(x, std::numbers::ln10));
  });
});
const Op kTan = elementwise_op("tan", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy * (y * y + number_like(y, 1)); });
});
const Op kSinh = elementwise_op("sinh", [](const GradientArgs& a) {
  return elementwise_gradient(a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * cosh(x); });
});
const Op kCosh = elementwise_op("cosh", [](const GradientArgs& a) {
  return elementwise_gradient(a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * sinh(x); });
});
const Op kAsin = elementwise_op("asin", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * rsqrt(number_like(x, 1) - x * x); });
});
const Op kAcos = elementwise_op("acos", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return neg(dy * rsqrt(number_like(x, 1) - x * x)); });
});
const Op kAtan = elementwise_op("atan", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy / (x * x + number_like(x, 1)); });
});
const Op kAsinh = elementwise_op("asinh", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * rsqrt(x * x + number_like(x, 1)); });
});
const Op kAcosh = elementwise_op("acosh", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * rsqrt(x * x - number_like(x, 1)); });
});
const Op kAtanh = elementwise_op("atanh", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy / (number_like(x, 1) - x * x); });
});
// dy · x / (x² + y²) and -dy · y / (x² + y²), 0 at the origin.
const Op kAtan2 = elementwise_op("atan2", [](const GradientArgs& a) -> Gradients {
  const Tensor y = widened(a[0]), x = widened(a[1]), square = x * x + y * y, zero = number_like(square, 0);
  const Tensor at_origin = equal(square, zero);
  const Tensor share = where(at_origin, zero, widened(a.gradients[0])) / where(at_origin, number_like(x, 1), square);
  return {cast(share * x, a[0].dtype()), cast(neg(share * y), a[1].dtype())};
});
const Op kHypot = elementwise_op("hypot", [](const GradientArgs& a) -> Gradients {
  const Tensor dy = widened(a.gradients[0]), y = widened(a.outputs[0]);  // 1 / y may be infinite, x / y is not
  return {cast(dy * (widened(a[0]) / y), a[0].dtype()), cast(dy * (widened(a[1]) / y), a[1].dtype())};
});
const Op kFloorDivide = elementwise_op("floor_divide", no_gradient);
// a - floor(a / b) · b, whose floor is a step.
const Op kRemainder = elementwise_op("remainder", [](const GradientArgs& a) -> Gradients {
  return {a.gradients[0], neg(a.gradients[0] * floor_divide(a[0], a[1]))};
});
const Op kBitwiseAnd = elementwise_op("bitwise_and", no_gradient);
const Op kBitwiseOr = elementwise_op("bitwise_or", no_gradient);
const Op kBitwiseXor = elementwise_op("bitwise_xor", no_gradient);
const Op kLeftShift = elementwise_op("left_shift", no_gradient);
const Op kRightShift = elementwise_op("right_shift", no_gradient);

Tensor ceil(const Tensor& x) { return rounded(kCeil, x); }
Tensor round(const Tensor& x) { return rounded(kRound, x); }
Tensor trunc(const Tensor& x) { return rounded(kTrunc, x); }
Tensor sign(const Tensor& x) {
  require_dtype("sign", x, kNumber);
  return is_floating(x.dtype()) ? record(kSign, {x}) : clamp(x, x.dtype() == DType::u8 ? 0 : -1, 1);
}
Tensor expm1(const Tensor& x) { return of_float(kExpm1, x); }
Tensor log1p(const Tensor& x) { return of_float(kLog1p, x); }
Tensor log2(const Tensor& x) { return of_float(kLog2, x); }
Tensor log10(const Tensor& x) { return of_float(kLog10, x); }
Tensor tan(const Tensor& x) { return of_float(kTan, x); }
Tensor sinh(const Tensor& x) { return of_float(kSinh, x); }
Tensor cosh(const Tensor& x) { return of_float(kCosh, x); }
Tensor asin(const Tensor& x) { return of_float(kAsin, x); }
Tensor acos(const Tensor& x) { return of_float(kAcos, x); }
Tensor atan(const Tensor& x) { return of_float(kAtan, x); }
Tensor asinh(const Tensor& x) { return of_float(kAsinh, x); }
Tensor acosh(const Tensor& x) { return of_float(kAcosh, x); }
Tensor atanh(const Tensor& x) { return of_float(kAtanh, x); }
Tensor exp2(const Tensor& x) {
  require_plain("exp2", x);
  const Tensor power = cast(x, as_float(x.dtype()));
  return pow(number_like(power, 2), power);
}
Tensor square(const Tensor& x) {
  require_plain("square", x);
  return mul(x, x);
}
Tensor reciprocal(const Tensor& x) {
  require_plain("reciprocal", x);
  return div(number_like(x, 1), x);
}

Tensor isnan(const Tensor& x) {
  require_plain("isnan", x);
  return is_floating(x.dtype()) ? not_equal(x, x) : everywhere(x, false);
}
Tensor isinf(const Tensor& x) {
  require_plain("isinf", x);
  return is_floating(x.dtype()) ? equal(abs(x), infinity(x)) : everywhere(x, false);
}
Tensor isfinite(const Tensor& x) {
  require_plain("isfinite", x);
  return is_floating(x.dtype()) ? less(abs(x), infinity(x)) : everywhere(x, true);
}

Tensor atan2(const Tensor& y, const Tensor& x) { return binary_float(kAtan2, y, x); }
Tensor hypot(const Tensor& a, const Tensor& b) { return binary_float(kHypot, a, b); }
Tensor floor_divide(const Tensor& a, const Tensor& b) { return record_binary(kFloorDivide, a, b, kNumber); }
Tensor remainder(const Tensor& a, const Tensor& b) { return record_binary(kRemainder, a, b, kNumber); }
Tensor bitwise_and(const Tensor& a, const Tensor& b) { return bitwise(kBitwiseAnd, logical_and, a, b); }
Tensor bitwise_or(const Tensor& a, const Tensor& b) { return bitwise(kBitwiseOr, logical_or, a, b); }
Tensor bitwise_xor(const Tensor& a, const Tensor& b) { return bitwise(kBitwiseXor, not_equal, a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  require_plain("logical_xor", a);
  require_plain("logical_xor", b);
  return not_equal(cast(a, DType::boolean), cast(b, DType::boolean));
}
Tensor bitwise_not(const Tensor& x) {
  require_plain("bitwise_not", x);
  if (x.dtype() == DType::boolean) return logical_not(x);
  return bitwise_xor(x, number_like(x, x.dtype() == DType::u8 ? 255 : -1));
}
Tensor left_shift(const Tensor& a, const Tensor& b) { return record_binary(kLeftShift, a, b, kInteger); }
Tensor right_shift(const Tensor& a, const Tensor& b) { return record_binary(kRightShift, a, b, kInteger); }

}  // namespace gabbro
