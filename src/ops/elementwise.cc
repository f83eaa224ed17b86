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

Tensor unary(const Op& op, const Tensor& x) {
  require_dtype(op.name, x, {DType::f32});
  return record(op, {x});
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
const Op kAdd = binary_op("add");
const Op kSub = binary_op("sub");
const Op kMul = binary_op("mul");
const Op kDiv = binary_op("div");
const Op kMaximum = binary_op("maximum");
const Op kMinimum = binary_op("minimum");
const Op kLe = comparison_op("le");
const Op kLt = comparison_op("lt");
const Op kLogicalAnd = binary_op("logical_and");
const Op kWhere = {.name = "where", .infer = [](const Args& a) { return result(a[1].shape(), a[1].dtype()); }};
const Op kCast = {
    .name = "cast",
    .infer = [](const Args& a) { return result(a[0].shape(), static_cast<DType>(a.attributes.integer("dtype"))); },
};

Tensor neg(const Tensor& x) { return unary(kNeg, x); }
Tensor abs(const Tensor& x) { return unary(kAbs, x); }
Tensor exp(const Tensor& x) { return unary(kExp, x); }
Tensor log(const Tensor& x) { return unary(kLog, x); }
Tensor sqrt(const Tensor& x) { return unary(kSqrt, x); }
Tensor rsqrt(const Tensor& x) { return unary(kRsqrt, x); }
Tensor sin(const Tensor& x) { return unary(kSin, x); }
Tensor cos(const Tensor& x) { return unary(kCos, x); }
Tensor tanh(const Tensor& x) { return unary(kTanh, x); }
Tensor sigmoid(const Tensor& x) { return unary(kSigmoid, x); }
Tensor add(const Tensor& a, const Tensor& b) { return binary(kAdd, a, b, {DType::f32, DType::i32}); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary(kSub, a, b, {DType::f32, DType::i32}); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary(kMul, a, b, {DType::f32, DType::i32}); }
Tensor div(const Tensor& a, const Tensor& b) { return binary(kDiv, a, b, {DType::f32, DType::i32}); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary(kMaximum, a, b, {DType::f32, DType::i32}); }
Tensor minimum(const Tensor& a, const Tensor& b) { return binary(kMinimum, a, b, {DType::f32, DType::i32}); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return binary(kLe, a, b, {DType::f32, DType::i32}); }
Tensor less(const Tensor& a, const Tensor& b) { return binary(kLt, a, b, {DType::f32, DType::i32}); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return binary(kLogicalAnd, a, b, {DType::boolean}); }

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
