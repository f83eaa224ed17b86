// Reductions over the last axis, [..., C] to [..., 1], and sums along it: what kernels do. reduction.cc has the
// functions.
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

Op reduction(const char* name, Gradients (*gradient)(const GradientArgs& a)) {
  return {.name = name,
          .infer = [](const Args& a) { return result(with_last(a[0].shape(), 1), a[0].dtype()); },
          .gradient = gradient};
}

Op search(const char* name) {
  return {.name = name,
          .infer = [](const Args& a) { return result(with_last(a[0].shape(), 1), DType::i32); },
          .gradient = [](const GradientArgs& a) { return Gradients(a.size()); }};
}

Gradients of_sum(const GradientArgs& a) { return {broadcast_to(a.gradients[0], a[0].shape())}; }

// Shared equally by all that are the extreme, as torch.amax has it.
Gradients of_extreme(const GradientArgs& a) {
  const Tensor hit = equal(a[0], broadcast_to(a.outputs[0], a[0].shape()));
  const Tensor share = a.gradients[0] / sum(cast(hit, a[0].dtype()), -1, kKeepDims);
  return {where_or_zero(hit, broadcast_to(share, a[0].shape()))};
}

// The product of all others: y / x, unless there is a zero. With one, it is the only one that has a gradient.
Gradients of_prod(const GradientArgs& a) {
  const Tensor &x = a[0], &dy = a.gradients[0], zero = number_like(x, 0), one = number_like(x, 1);
  const Tensor is_zero = equal(x, zero);
  const Tensor zeros = sum(cast(is_zero, x.dtype()), -1, kKeepDims), rest = where(is_zero, one, x);
  const Tensor product = dy * prod(rest, -1, kKeepDims);
  const Tensor of_others = where_or_zero(equal(zeros, zero), product) / rest;
  return {where(is_zero, broadcast_to(where_or_zero(equal(zeros, one), product), x.shape()), of_others)};
}

// x with its last axis backwards.
Tensor reversed(const Tensor& x) {
  const int rank = x.shape().rank();
  const int64_t columns = x.shape()[rank - 1], rows = columns == 0 ? 0 : x.shape().elements() / columns;
  const Tensor turned = permute(reshape(x, Shape{rows, columns}), {1, 0});
  const Tensor order = iota(x.device(), columns, DType::i32, static_cast<double>(columns - 1), -1);
  return reshape(permute(gather(turned, order), {1, 0}), x.shape());
}

}  // namespace

const Op kSum = reduction("sum", of_sum);
const Op kMax = reduction("max", of_extreme);
const Op kMin = reduction("min", of_extreme);
const Op kProd = reduction("prod", of_prod);
const Op kArgmax = search("argmax");
const Op kArgmin = search("argmin");

// The sum of the elements up to each: those with a larger index count as 0.
const Op kCumsum = {
    .name = "cumsum",
    .infer = [](const Args& a) { return result(a[0].shape(), a[0].dtype()); },
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];  // [..., C]
          const int64_t columns = x.shape()[x.shape().rank() - 1];
          const Tensor flat = reshape(x, Shape{x.shape().elements() / columns, 1, columns});
          const Tensor index = iota(x.device(), columns, DType::i32);
          const Tensor before = less_equal(index, reshape(index, Shape{columns, 1}));  // [C, C]
          return std::vector{
              reshape(sum(where(before, flat, scalar(x.device(), 0, x.dtype())), -1, kKeepDims), x.shape())};
        },
    .gradient = [](const GradientArgs& a) -> Gradients { return {reversed(cumsum(reversed(a.gradients[0])))}; },
};

}  // namespace gabbro
