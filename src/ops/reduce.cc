// Reductions over the last axis, [..., C] to [..., 1], and sums along it: what kernels do. Of halves they give f32, and
// sums of i32 are i64.
// functions/reduce_axes.cc has the functions.
#include "src/graph/history.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// f16 and bf16 in f32, for a device without a kernel for them.
template <const Op& op>
std::vector<Tensor> in_f32(const Args& a) {
  if (!is_half(a[0].dtype())) return {};
  return {record(op, {cast(a[0], DType::f32)})};
}

// The dtype of sums: i64 of i32.
DType wide_integer(DType dtype) { return dtype == DType::i32 ? DType::i64 : dtype; }
// f32 for f16 and bf16.
std::vector<TensorSpec> sum_spec(const Args& a) {
  const DType dtype = a[0].dtype();
  return result(with_last(a[0].shape(), 1), is_half(dtype) ? DType::f32 : wide_integer(dtype));
}

Op reduction(const char* name, std::vector<Tensor> (*compose)(const Args& a),
             Gradients (*gradient)(const GradientArgs& a)) {
  return {.name = name,
          .infer =
              [](const Args& a) {
                return result(with_last(a[0].shape(), 1), is_half(a[0].dtype()) ? DType::f32 : a[0].dtype());
              },
          .compose = compose,
          .gradient = gradient};
}

Op search(const char* name, std::vector<Tensor> (*compose)(const Args& a)) {
  return {.name = name,
          .infer = [](const Args& a) { return result(with_last(a[0].shape(), 1), DType::i32); },
          .compose = compose,
          .gradient = [](const GradientArgs& a) { return Gradients(a.size()); }};
}

Gradients of_sum(const GradientArgs& a) { return {cast(broadcast_to(a.gradients[0], a[0].shape()), a[0].dtype())}; }

// Shared equally by all that are the extreme, as torch.amax has it; the others get 0 of an infinite one, too. NaN in a
// row with a NaN, which has no extreme.
Gradients of_extreme(const GradientArgs& a) {
  const Tensor x = cast(a[0], a.outputs[0].dtype());
  const Tensor is_extreme = equal(x, broadcast_to(a.outputs[0], x.shape()));
  const Tensor count = sum(cast(is_extreme, x.dtype()), -1, kKeepDims), others = number_like(count, 0) / count;
  return {cast(where(is_extreme, a.gradients[0] / count, others), a[0].dtype())};
}

// x with its last axis backwards.
Tensor reversed(const Tensor& x) {
  const int rank = x.shape().rank();
  const int64_t columns = x.shape()[rank - 1], rows = columns == 0 ? 0 : x.shape().elements() / columns;
  const Tensor transposed = permute(reshape(x, Shape{rows, columns}), {1, 0});
  const Tensor order = iota(x.device(), columns, DType::i32, static_cast<double>(columns - 1), -1);
  return reshape(permute(gather(transposed, order), {1, 0}), x.shape());
}

// Along the last axis, the product of all elements before each: of x moved by one, by doubling the distance.
Tensor products_before(const Tensor& x) {
  const int axis = x.shape().rank() - 1;
  const int64_t columns = x.shape()[axis];
  const auto moved = [&](const Tensor& y, int64_t by) {
    const Tensor ones = filled_like(y, with_last(y.shape(), by), 1);
    return concat({ones, slice(y, axis, 0, columns - by)}, axis);
  };
  Tensor y = moved(x, 1);
  for (int64_t step = 1; step < columns; step *= 2) y = y * moved(y, step);
  return y;
}

// The product of all others: y / x, unless there is a zero. With one, it is the only one that has a gradient. Where
// that is differentiated again, of the products before and behind each: their derivatives are right at zeros, too.
Gradients of_prod(const GradientArgs& a) {
  const Tensor x = cast(a[0], a.outputs[0].dtype()), &dy = a.gradients[0], zero = number_like(x, 0),
               one = number_like(x, 1);
  if (gradients_enabled() && x.shape()[x.shape().rank() - 1] > 0) {
    const Tensor others = products_before(x) * reversed(products_before(reversed(x)));
    return {cast(dy * others, a[0].dtype())};
  }
  const Tensor is_zero = equal(x, zero);
  const Tensor zeros = sum(cast(is_zero, x.dtype()), -1, kKeepDims), rest = where(is_zero, one, x);
  const Tensor product = dy * prod(rest, -1, kKeepDims);
  const Tensor of_others = where_or_zero(equal(zeros, zero), product) / rest;
  const Tensor dx = where(is_zero, broadcast_to(where_or_zero(equal(zeros, one), product), x.shape()), of_others);
  return {cast(dx, a[0].dtype())};
}

}  // namespace

const Op kSum = {.name = "sum", .infer = sum_spec, .compose = in_f32<kSum>, .gradient = of_sum};
const Op kMax = reduction("max", in_f32<kMax>, of_extreme);
const Op kMin = reduction("min", in_f32<kMin>, of_extreme);
const Op kProd = reduction("prod", in_f32<kProd>, of_prod);
const Op kArgmax = search("argmax", in_f32<kArgmax>);
const Op kArgmin = search("argmin", in_f32<kArgmin>);

// The sum of the elements up to each: those with a larger index count as 0.
const Op kCumsum = {
    .name = "cumsum",
    .infer = [](const Args& a) { return result(a[0].shape(), wide_integer(a[0].dtype())); },
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];  // [..., C]
          if (is_half(x.dtype())) return std::vector{cast(cumsum(cast(x, DType::f32)), x.dtype())};
          const int64_t columns = x.shape()[x.shape().rank() - 1];
          const Tensor flat = reshape(x, Shape{x.shape().elements() / columns, 1, columns});
          const Tensor index = iota(x.device(), columns, DType::i32);
          const Tensor before = less_equal(index, reshape(index, Shape{columns, 1}));  // [C, C]
          return std::vector{reshape(
              cast(sum(where(before, flat, scalar(x.device(), 0, x.dtype())), -1, kKeepDims), wide_integer(x.dtype())),
              x.shape())};
        },
    .gradient = [](const GradientArgs& a) -> Gradients { return {reversed(cumsum(reversed(a.gradients[0])))}; },
};

}  // namespace gabbro
