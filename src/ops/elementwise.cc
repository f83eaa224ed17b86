// Elementwise ops: primitives on every backend.
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

Op unary_op(const char* name) {
  return {.name = name, .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); }};
}

Op binary_op(const char* name) {
  return {.name = name, .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); }};
}

Op comparison_op(const char* name) {
  return {.name = name, .infer = [](const Args& a) { return result(a[0].shape(), DType::boolean); }};
}

constexpr std::initializer_list<DType> kReal = {DType::f32, DType::f16, DType::bf16};
constexpr std::initializer_list<DType> kNumber = {DType::f32, DType::i32, DType::f16, DType::bf16};

Tensor unary(const Op& op, const Tensor& x) {
  require_dtype(op.name, x, kReal);
  return record(op, {x});
}

Tensor number(const Tensor& like, double value) {
  const Tensor plain = scalar(like.device(), value, like.dtype() == DType::i32 ? DType::i32 : DType::f32);
  return cast(plain, like.dtype());
}

Tensor broadcast_if_needed(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : broadcast_to(x, shape);
}

// Kernels see both inputs in the result's shape, with stride 0 along broadcast axes.
Tensor binary(const Op& op, const Tensor& a, const Tensor& b, std::initializer_list<DType> dtypes) {
  require_dtype(op.name, a, dtypes);
  require_dtype(op.name, b, dtypes);
  if (a.dtype() != b.dtype()) {
    throw bad_input("[{}] the inputs are {} {} and {} {}; cast one of them", op.name, dtype_name(a.dtype()),
                    a.shape().to_string(), dtype_name(b.dtype()), b.shape().to_string());
  }
  const Shape shape = broadcast_shapes(op.name, a.shape(), b.shape());
  return record(op, {broadcast_if_needed(a, shape), broadcast_if_needed(b, shape)});
}

// bool is compared as 0 and 1.
Tensor compared(const Op& op, const Tensor& a, const Tensor& b) {
  require_defined(op.name, a);
  require_defined(op.name, b);
  const bool flags = a.dtype() == DType::boolean && b.dtype() == DType::boolean;
  return flags ? binary(op, cast(a, DType::i32), cast(b, DType::i32), kNumber) : binary(op, a, b, kNumber);
}

}  // namespace

const Op kNeg = unary_op("neg");
const Op kAbs = unary_op("abs");
const Op kExp = unary_op("exp");
const Op kLog = unary_op("log");
const Op kSqrt = unary_op("sqrt");
const Op kRsqrt = unary_op("rsqrt");
const Op kSin = unary_op("sin");
const Op kCos = unary_op("cos");
const Op kTanh = unary_op("tanh");
const Op kSigmoid = unary_op("sigmoid");
const Op kFloor = unary_op("floor");
const Op kErf = unary_op("erf");
const Op kAdd = binary_op("add");
const Op kSub = binary_op("sub");
const Op kMul = binary_op("mul");
const Op kDiv = binary_op("div");
const Op kMaximum = binary_op("maximum");
const Op kMinimum = binary_op("minimum");
const Op kPow = binary_op("pow");
const Op kEq = comparison_op("eq");
const Op kNe = comparison_op("ne");
const Op kGt = comparison_op("gt");
const Op kGe = comparison_op("ge");
const Op kLe = comparison_op("le");
const Op kLt = comparison_op("lt");
const Op kLogicalAnd = binary_op("logical_and");
const Op kLogicalOr = binary_op("logical_or");
// x, lowest, highest.
const Op kClamp = {
    .name = "clamp",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    .compose = [](const Args& a) { return std::vector{minimum(maximum(a[0], a[1]), a[2])}; },
};
const Op kWhere = {.name = "where", .infer = [](const Args& a) { return result(a[1].shape(), a[1].dtype()); }};
const Op kCast = {
    .name = "cast",
    .infer = [](const Args& a) { return result(a[0].shape(), static_cast<DType>(a.attributes.integer("dtype"))); },
};

Tensor neg(const Tensor& x) {
  if (!x.defined() || x.dtype() != DType::i32) return unary(kNeg, x);
  return sub(number(x, 0), x);
}
Tensor abs(const Tensor& x) {
  if (!x.defined() || x.dtype() != DType::i32) return unary(kAbs, x);
  return maximum(x, neg(x));
}
Tensor exp(const Tensor& x) { return unary(kExp, x); }
Tensor log(const Tensor& x) { return unary(kLog, x); }
Tensor sqrt(const Tensor& x) { return unary(kSqrt, x); }
Tensor rsqrt(const Tensor& x) { return unary(kRsqrt, x); }
Tensor sin(const Tensor& x) { return unary(kSin, x); }
Tensor cos(const Tensor& x) { return unary(kCos, x); }
Tensor tanh(const Tensor& x) { return unary(kTanh, x); }
Tensor sigmoid(const Tensor& x) { return unary(kSigmoid, x); }
Tensor floor(const Tensor& x) { return unary(kFloor, x); }
Tensor erf(const Tensor& x) { return unary(kErf, x); }
Tensor add(const Tensor& a, const Tensor& b) { return binary(kAdd, a, b, kNumber); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary(kSub, a, b, kNumber); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary(kMul, a, b, kNumber); }
Tensor div(const Tensor& a, const Tensor& b) { return binary(kDiv, a, b, kNumber); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary(kMaximum, a, b, kNumber); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary(kMinimum, a, b, kNumber); }
Tensor pow(const Tensor& a, const Tensor& b) { return binary(kPow, a, b, kNumber); }
Tensor equal(const Tensor& a, const Tensor& b) { return compared(kEq, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return compared(kNe, a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return compared(kGt, a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return compared(kGe, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compared(kLe, a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return compared(kLt, a, b); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return binary(kLogicalAnd, a, b, {DType::boolean}); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return binary(kLogicalOr, a, b, {DType::boolean}); }
Tensor logical_not(const Tensor& x) {
  require_dtype("logical_not", x, {DType::boolean});
  return equal(x, cast(scalar(x.device(), 0), DType::boolean));
}

Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  for (const Tensor* operand : {&x, &low, &high}) {
    require_dtype("clamp", *operand, kNumber);
    if (operand->dtype() != x.dtype())
      throw bad_input("[clamp] a bound is {} {} and x {} {}", dtype_name(operand->dtype()),
                      operand->shape().to_string(), dtype_name(x.dtype()), x.shape().to_string());
  }
  const Shape shape = broadcast_shapes("clamp", broadcast_shapes("clamp", x.shape(), low.shape()), high.shape());
  return record(kClamp,
                {broadcast_if_needed(x, shape), broadcast_if_needed(low, shape), broadcast_if_needed(high, shape)});
}
Tensor clamp(const Tensor& x, double low, double high) {
  require_dtype("clamp", x, kNumber);
  return clamp(x, number(x, low), number(x, high));
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require_dtype("where", condition, {DType::boolean});
  require_plain("where", a);
  require_plain("where", b);
  if (a.dtype() != b.dtype())
    throw bad_input("[where] the branches are {} {} and {} {}", dtype_name(a.dtype()), a.shape().to_string(),
                    dtype_name(b.dtype()), b.shape().to_string());
  const Shape shape = broadcast_shapes("where", condition.shape(), broadcast_shapes("where", a.shape(), b.shape()));
  return record(kWhere,
                {broadcast_if_needed(condition, shape), broadcast_if_needed(a, shape), broadcast_if_needed(b, shape)});
}

Tensor cast(const Tensor& x, DType dtype) {
  require_plain("cast", x);
  if (is_quantised(dtype)) throw bad_input("[cast] {} to {} is not done", dtype_name(x.dtype()), dtype_name(dtype));
  if (x.dtype() == dtype) return x;
  return record(kCast, {x}, {{"dtype", static_cast<int64_t>(dtype)}});
}

}  // namespace gabbro
