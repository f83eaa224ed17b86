// Elementwise ops: primitives on every backend.
#include <numbers>

#include "src/ops/autocast.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/promotion.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// As PyTorch has it: half of dy to each of two equal elements, all of it to both where one is NaN.
Gradients of_larger(const GradientArgs& a, const Tensor& x, const Tensor& y) {
  const Tensor& dy = a.gradients[0];
  const Tensor zero = number_like(dy, 0), most = where(equal(x, y), dy * number_like(dy, 0.5), dy);
  return {where(less(x, y), zero, most), where(less(y, x), zero, most)};
}

// As PyTorch has it: x and a bound that it equals get half of dy each; of a bound that is a number, x gets nothing.
Gradients of_clamp(const GradientArgs& a) {
  const Tensor &x = a[0], &low = a[1], &high = a[2], &dy = a.gradients[0];
  if (a.attributes.integer("numbers") != 0) {
    const Tensor between = logical_and(less(low, x), less(x, high));
    return {where_or_zero(between, dy), Tensor(), Tensor()};
  }
  const Tensor half = dy * number_like(dy, 0.5), some = less(low, high);
  const Tensor is_low = logical_and(some, equal(x, low)), is_high = logical_and(some, equal(x, high));
  const Tensor outside = logical_or(less(x, low), greater(x, high));
  const Tensor above = logical_or(greater(x, high), less(high, low));
  return {where(outside, number_like(dy, 0), where(logical_or(is_low, is_high), half, dy)),
          where(logical_and(less_equal(low, high), less(x, low)), dy, where_or_zero(is_low, half)),
          where(above, dy, where_or_zero(is_high, half))};
}

Op comparison_op(const char* name) {
  return {.name = name,
          .infer = [](const Args& a) { return result(a[0].shape(), DType::boolean); },
          .gradient = no_gradient,
          .elementwise = true};
}

Tensor unary(const Op& op, const Tensor& x) {
  require_plain(op.name, x);
  return record(op, {cast(x, as_float(x.dtype()))});
}

bool are_flags(const char* op, const Tensor& a, const Tensor& b) {
  require_defined(op, a);
  require_defined(op, b);
  return a.dtype() == DType::boolean && b.dtype() == DType::boolean;
}

// Two bool operands go to another op.
Tensor number_or_flags(const Op& op, const Op& of_flags, const Tensor& a, const Tensor& b) {
  return are_flags(op.name, a, b) ? record_binary(of_flags, a, b, {DType::boolean}) : record_binary(op, a, b, kNumber);
}

Tensor logical(const Op& op, const Tensor& a, const Tensor& b) {
  require_plain(op.name, a);
  require_plain(op.name, b);
  return record_binary(op, cast(a, DType::boolean), cast(b, DType::boolean), {DType::boolean});
}

// bool is compared as 0 and 1.
Tensor compared(const Op& op, const Tensor& a, const Tensor& b) {
  return are_flags(op.name, a, b) ? record_binary(op, cast(a, DType::i32), cast(b, DType::i32), kNumber)
                                  : record_binary(op, a, b, kNumber);
}

}  // namespace

const Op kNeg = elementwise_op("neg", [](const GradientArgs& a) -> Gradients { return {neg(a.gradients[0])}; });
// 0 at 0.
const Op kAbs = elementwise_op("abs", [](const GradientArgs& a) -> Gradients {
  const Tensor zero = number_like(a[0], 0), &dy = a.gradients[0];
  return {where(greater(a[0], zero), dy, where_or_zero(less(a[0], zero), neg(dy)))};
});
const Op kExp =
    elementwise_op("exp", [](const GradientArgs& a) -> Gradients { return {a.gradients[0] * a.outputs[0]}; });
const Op kLog = elementwise_op("log", [](const GradientArgs& a) -> Gradients { return {a.gradients[0] / a[0]}; });
const Op kSqrt = elementwise_op("sqrt", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy / (y * number_like(y, 2)); });
});
const Op kRsqrt = elementwise_op("rsqrt", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy * number_like(y, -0.5) * y * y * y; });
});
const Op kSin = elementwise_op("sin", [](const GradientArgs& a) {
  return elementwise_gradient(a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return dy * cos(x); });
});
const Op kCos = elementwise_op("cos", [](const GradientArgs& a) {
  return elementwise_gradient(a, [](const Tensor& x, const Tensor&, const Tensor& dy) { return neg(dy * sin(x)); });
});
const Op kTanh = elementwise_op("tanh", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy * (number_like(y, 1) - y * y); });
});
const Op kSigmoid = elementwise_op("sigmoid", [](const GradientArgs& a) {
  return elementwise_gradient(
      a, [](const Tensor&, const Tensor& y, const Tensor& dy) { return dy * y * (number_like(y, 1) - y); });
});
const Op kFloor = elementwise_op("floor", no_gradient);
// 2/√π · exp(-x²).
const Op kErf = elementwise_op("erf", [](const GradientArgs& a) {
  return elementwise_gradient(a, [](const Tensor& x, const Tensor&, const Tensor& dy) {
    return dy * number_like(x, 2 * std::numbers::inv_sqrtpi) * exp(neg(x * x));
  });
});
const Op kAdd = elementwise_op("add", [](const GradientArgs& a) -> Gradients {
  return {a.gradients[0], a.gradients[0]};
});
const Op kSub = elementwise_op("sub", [](const GradientArgs& a) -> Gradients {
  return {a.gradients[0], neg(a.gradients[0])};
});
const Op kMul = elementwise_op("mul", [](const GradientArgs& a) -> Gradients {
  return {a.gradients[0] * a[1], a.gradients[0] * a[0]};
});
const Op kDiv = elementwise_op("div", [](const GradientArgs& a) -> Gradients {
  const Tensor& dy = a.gradients[0];
  return {dy / a[1], cast(neg(widened(dy) * widened(a.outputs[0]) / widened(a[1])), dy.dtype())};
});
const Op kMaximum = elementwise_op("maximum", [](const GradientArgs& a) { return of_larger(a, a[0], a[1]); });
const Op kMinimum = elementwise_op("minimum", [](const GradientArgs& a) { return of_larger(a, a[1], a[0]); });
// b·a^(b-1), 0 where b is 0; and a^b·log a, 0 where a is 0 and b is not negative.
const Op kPow = elementwise_op("pow", [](const GradientArgs& a) -> Gradients {
  const Tensor x = widened(a[0]), b = widened(a[1]), y = widened(a.outputs[0]), dy = widened(a.gradients[0]);
  const Tensor zero = number_like(x, 0), one = number_like(x, 1), is_constant = equal(b, zero);
  const Tensor base = where(is_constant, one, x);  // a second derivative does not meet 1 / 0
  const Tensor dx = where(is_constant, zero, dy * (b * pow(base, b - one)));
  const Tensor flat = logical_and(equal(x, zero), greater_equal(b, zero));
  return {cast(dx, a[0].dtype()), cast(where(flat, zero, dy * y * log(x)), a[0].dtype())};
});
const Op kEq = comparison_op("eq");
const Op kNe = comparison_op("ne");
const Op kGt = comparison_op("gt");
const Op kGe = comparison_op("ge");
const Op kLe = comparison_op("le");
const Op kLt = comparison_op("lt");
const Op kLogicalAnd = elementwise_op("logical_and", no_gradient);
const Op kLogicalOr = elementwise_op("logical_or", no_gradient);
// x, lowest, highest.
const Op kClamp = {
    .name = "clamp",
    .infer = like_first,
    .compose = [](const Args& a) { return std::vector{minimum(maximum(a[0], a[1]), a[2])}; },
    .gradient = of_clamp,
    .elementwise = true,
};
const Op kWhere = {
    .name = "where",
    .infer = [](const Args& a) { return result(a[1].shape(), a[1].dtype()); },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Tensor& dy = a.gradients[0];
      return {Tensor(), where_or_zero(a[0], dy), where(a[0], number_like(dy, 0), dy)};
    },
    .elementwise = true,
};
const Op kCast = {
    .name = "cast",
    .infer = [](const Args& a) { return result(a[0].shape(), static_cast<DType>(a.attributes.integer("dtype"))); },
    .gradient = [](const GradientArgs& a) -> Gradients { return {cast(a.gradients[0], a[0].dtype())}; },
    .elementwise = true,
};

Tensor neg(const Tensor& x) {
  require_dtype("neg", x, kNumber);
  return is_floating(x.dtype()) ? record(kNeg, {x}) : sub(number_like(x, 0), x);
}
Tensor abs(const Tensor& x) {
  require_dtype("abs", x, kNumber);
  if (is_floating(x.dtype())) return record(kAbs, {x});
  return x.dtype() == DType::u8 ? x : maximum(x, neg(x));
}
Tensor exp(const Tensor& x) { return unary(kExp, for_sum(x)); }
Tensor log(const Tensor& x) { return unary(kLog, for_sum(x)); }
Tensor sqrt(const Tensor& x) { return unary(kSqrt, x); }
Tensor rsqrt(const Tensor& x) { return unary(kRsqrt, for_sum(x)); }
Tensor sin(const Tensor& x) { return unary(kSin, x); }
Tensor cos(const Tensor& x) { return unary(kCos, x); }
Tensor tanh(const Tensor& x) { return unary(kTanh, x); }
Tensor sigmoid(const Tensor& x) { return unary(kSigmoid, x); }
Tensor floor(const Tensor& x) {
  require_dtype("floor", x, kNumber);
  return is_floating(x.dtype()) ? record(kFloor, {x}) : x;
}
Tensor erf(const Tensor& x) { return unary(kErf, x); }
Tensor add(const Tensor& a, const Tensor& b) { return number_or_flags(kAdd, kLogicalOr, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return record_binary(kSub, a, b, kNumber); }
Tensor mul(const Tensor& a, const Tensor& b) { return number_or_flags(kMul, kLogicalAnd, a, b); }
Tensor div(const Tensor& a, const Tensor& b) {
  const auto [x, y] = promoted("div", a, b);
  const DType dtype = as_float(x.dtype());
  return record_binary(kDiv, cast(x, dtype), cast(y, dtype), kNumber);
}
Tensor trunc_divide(const Tensor& a, const Tensor& b) {
  const auto [x, y] = promoted("trunc_divide", a, b);
  return is_floating(x.dtype()) ? trunc(div(x, y)) : record_binary(kDiv, x, y, kNumber);
}
Tensor maximum(const Tensor& a, const Tensor& b) { return number_or_flags(kMaximum, kLogicalOr, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return number_or_flags(kMinimum, kLogicalAnd, a, b); }
Tensor pow(const Tensor& a, const Tensor& b) { return record_binary(kPow, for_sum(a), for_sum(b), kNumber); }
Tensor equal(const Tensor& a, const Tensor& b) { return compared(kEq, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return compared(kNe, a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return compared(kGt, a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return compared(kGe, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compared(kLe, a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return compared(kLt, a, b); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return logical(kLogicalAnd, a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return logical(kLogicalOr, a, b); }
Tensor logical_not(const Tensor& x) {
  require_plain("logical_not", x);
  return equal(x, number_like(x, 0));
}

namespace {

Tensor clamped(const Tensor& x, const Tensor& low, const Tensor& high, bool numbers) {
  const DType dtype = promote(promoted("clamp", x, low).first.dtype(), promoted("clamp", x, high).first.dtype());
  const Tensor all[] = {cast(x, dtype), cast(low, dtype), cast(high, dtype)};
  require_dtype("clamp", all[0], kNumber);
  const Shape shape = broadcast_shapes("clamp", broadcast_shapes("clamp", x.shape(), low.shape()), high.shape());
  return record(
      kClamp,
      {broadcast_if_needed(all[0], shape), broadcast_if_needed(all[1], shape), broadcast_if_needed(all[2], shape)},
      {{"numbers", int64_t{numbers}}});
}

}  // namespace

Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) { return clamped(x, low, high, false); }
Tensor clamp(const Tensor& x, double low, double high) {
  require_dtype("clamp", x, kNumber);
  return clamped(x, number_like(x, low), number_like(x, high), true);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require_dtype("where", condition, {DType::boolean});
  const auto [x, y] = promoted("where", a, b);
  const Shape shape = broadcast_shapes("where", condition.shape(), broadcast_shapes("where", a.shape(), b.shape()));
  return record(kWhere,
                {broadcast_if_needed(condition, shape), broadcast_if_needed(x, shape), broadcast_if_needed(y, shape)});
}

Tensor cast(const Tensor& x, DType dtype) {
  require_plain("cast", x);
  if (is_quantized(dtype)) throw bad_input("[cast] {} to {} is not done", dtype_name(x.dtype()), dtype_name(dtype));
  if (x.dtype() == dtype) return x;
  return record(kCast, {x}, {{"dtype", static_cast<int64_t>(dtype)}});
}

}  // namespace gabbro
