// Reductions over the last axis.
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

Tensor reduce(const Op& op, const Tensor& x) {
  require_dtype(op.name, x, {DType::f32});
  if (x.shape().rank() == 0) throw bad_input("[{}] a scalar has no axis to reduce", op.name);
  return record(op, {x});
}

}  // namespace

const Op kSum = {.name = "sum", .infer = [](const Args& a) { return result(with_last(a[0].shape(), 1), DType::f32); }};
const Op kMax = {.name = "max", .infer = [](const Args& a) { return result(with_last(a[0].shape(), 1), DType::f32); }};
const Op kArgmax = {.name = "argmax",
                    .infer = [](const Args& a) { return result(with_last(a[0].shape(), 1), DType::i32); }};

Tensor sum(const Tensor& x) { return reduce(kSum, x); }
Tensor max(const Tensor& x) { return reduce(kMax, x); }
Tensor argmax(const Tensor& x) { return reduce(kArgmax, x); }

Tensor mean(const Tensor& x) {
  const Tensor total = sum(x);
  return total * scalar(x.device(), 1.0 / static_cast<double>(x.shape()[x.shape().rank() - 1]));
}

}  // namespace gabbro
