// Reductions. Kernels reduce the last axis, [..., C] to [..., 1], and sum along it: of halves they give f32, and sums
// of i32 are i64. Adjacent axes are reshaped to one, which is read in place. Other groups of axes are reduced in turn,
// the last ones first, since most of the elements are gone then without a copy.
#include <algorithm>
#include <cmath>

#include "src/graph/history.h"
#include "src/ops/autocast.h"
#include "src/ops/functions/smooth.h"
#include "src/ops/grad.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/last_axis.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/promotion.h"
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

// The product of all others: y / x, unless there is a zero. With one zero, only that element has a gradient. If
// that is differentiated again, it is made of the products before and after each element: their derivatives are right
// at zeros, too.
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

namespace {

Shape without(const Shape& shape, const std::vector<int>& axes, bool keepdims) {
  std::vector<int64_t> lengths;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool reduced = std::ranges::find(axes, axis) != axes.end();
    if (!reduced) lengths.push_back(shape[axis]);
    if (reduced && keepdims) lengths.push_back(1);
  }
  return Shape(lengths);
}

int64_t count_of(const Shape& shape, const std::vector<int>& axes) {
  int64_t count = 1;
  for (const int axis : axes) count *= shape[axis];
  return count;
}

Tensor shaped(const Tensor& x, const Shape& shape) { return x.shape() == shape ? x : reshape(x, shape); }

// x with axes first .. last made one and moved to the end.
Tensor run_to_last(const Tensor& x, int first, int last) {
  std::vector<int64_t> lengths;
  for (int axis = 0; axis < x.shape().rank(); ++axis) {
    if (axis > first && axis <= last) {
      lengths.back() *= x.shape()[axis];
    } else {
      lengths.push_back(x.shape()[axis]);
    }
  }
  return axis_to_last(shaped(x, Shape(lengths)), first);
}

// For an op whose result does not depend on the order of the elements.
Tensor reduce_groups(const Op& op, Tensor x, const std::vector<int>& axes) {
  for (size_t end = axes.size(); end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && axes[begin - 1] == axes[begin] - 1) --begin;
    const std::vector<int> group(axes.begin() + static_cast<int64_t>(begin), axes.begin() + static_cast<int64_t>(end));
    const Shape shape = without(x.shape(), group, true);
    x = shaped(record(op, {run_to_last(x, group.front(), group.back())}), shape);
    end = begin;
  }
  return x;
}

// x with the axes made one and moved to the end: a copy where they are not adjacent.
Tensor axes_to_last(const Tensor& x, const std::vector<int>& axes) {
  std::vector<int> order;
  std::vector<int64_t> lengths;
  for (int axis = 0; axis < x.shape().rank(); ++axis) {
    if (std::ranges::find(axes, axis) != axes.end()) continue;
    order.push_back(axis);
    lengths.push_back(x.shape()[axis]);
  }
  order.insert(order.end(), axes.begin(), axes.end());
  lengths.push_back(count_of(x.shape(), axes));
  return reshape(permute(x, order), Shape(lengths));
}

// In a dtype that kernels reduce: i32 for bool and small integers. Their result for f16 and bf16 is f32.
Tensor reducible(const Tensor& x) { return is_half(x.dtype()) ? x : cast(x, as_computed(x.dtype())); }

// In a dtype that kernels compute in: f32 for halves as well.
Tensor computed(const Tensor& x) { return cast(x, is_half(x.dtype()) ? DType::f32 : as_computed(x.dtype())); }

Tensor reduce(const Op& op, const Tensor& x, const Axes& axes, bool keepdims, DType dtype) {
  const std::vector<int> found = axes.of(op.name, x.shape());
  const Tensor y = cast(reduce_groups(op, reducible(cast(x, dtype)), found), dtype);
  return shaped(y, without(x.shape(), found, keepdims));
}

// dtype of sums and products: i64 for integers and bool.
DType sum_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::i64; }

void require_some(const char* op, const Tensor& x, const Axes& axes) {
  if (count_of(x.shape(), axes.of(op, x.shape())) > 0) return;
  throw bad_input("[{}] nothing to choose from in shape {}", op, x.shape().to_string());
}

// The largest or the smallest.
Tensor extreme(const Op& op, const Tensor& x, const Axes& axes, bool keepdims) {
  require_plain(op.name, x);
  require_some(op.name, x, axes);
  const std::vector<int> found = axes.of(op.name, x.shape());
  const bool adjacent = found.empty() || found.back() - found.front() + 1 == static_cast<int>(found.size());
  // Elements that are equal share the gradient equally, so one reduction sees all of them.
  if (!adjacent && gradients_enabled() && needs_gradient(x))
    return shaped(reduce(op, axes_to_last(x, found), Axes(-1), false, x.dtype()), without(x.shape(), found, keepdims));
  return reduce(op, x, axes, keepdims, x.dtype());
}

Tensor place(const Op& op, const Tensor& x, std::optional<int64_t> axis, bool keepdims) {
  require_plain(op.name, x);
  const Axes axes = axis ? Axes(*axis) : kAllAxes;
  require_some(op.name, x, axes);
  const Tensor numbers = reducible(x);
  const Shape shape = without(x.shape(), axes.of(op.name, x.shape()), keepdims);
  if (!axis) return shaped(record(op, {reshape(numbers, Shape{x.shape().elements()})}), shape);
  return shaped(record(op, {axis_to_last(numbers, x.shape().axis(op.name, *axis))}), shape);
}

// Whether some or all elements are not zero: the largest or the smallest of zeros and ones is one, and of nothing it
// is the lowest or the highest number.
Tensor flags(const char* name, const Op& op, const Tensor& x, const Axes& axes, bool keepdims) {
  require_plain(name, x);
  const std::vector<int> found = axes.of(name, x.shape());
  const Tensor ones = cast(cast(x, DType::boolean), kDefaultInteger);
  const Tensor y = greater(reduce_groups(op, ones, found), scalar(x.device(), 0, kDefaultInteger));
  return shaped(y, without(x.shape(), found, keepdims));
}

// [N, C, S] such that the axes are N and S, if the shape has that form; the kernel reads it in place.
std::optional<Shape> outer_and_inner(const Shape& shape, const std::vector<int>& axes) {
  int64_t lengths[3] = {1, 1, 1};
  size_t part = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool reduced = std::ranges::find(axes, axis) != axes.end();
    if (reduced == (part == 1)) ++part;
    if (part > 2) return std::nullopt;
    lengths[part] *= shape[axis];
  }
  return Shape{lengths[0], lengths[1], lengths[2]};
}

// The first element along the axes.
Tensor first_along(Tensor x, const std::vector<int>& axes) {
  for (const int axis : axes) x = slice(x, axis, 0, std::min<int64_t>(1, x.shape()[axis]));
  return x;
}

// The mean squared distance from the mean: by the kernel that batch_norm has. In f64 by two sums, of distances from the
// first element, so that equal elements have a variance of 0.
Tensor mean_square(const Tensor& x, const std::vector<int>& axes) {
  const Shape shape = without(x.shape(), axes, true);
  if (x.dtype() == DType::f64) {
    const Tensor factor = scalar(x.device(), 1 / static_cast<double>(count_of(x.shape(), axes)), DType::f64);
    if (count_of(x.shape(), axes) == 0) return full(x.device(), shape, NAN, DType::f64);
    const Tensor moved = x - detach(first_along(x, axes));
    const Tensor distance = moved - reduce_groups(kSum, moved, axes) * factor;
    return reduce_groups(kSum, distance * distance, axes) * factor;
  }
  if (const auto parts = outer_and_inner(x.shape(), axes))
    return reshape(record_all(kMoments, {reshape(x, *parts)})[1], shape);
  const Shape rows{1, shape.elements(), count_of(x.shape(), axes)};
  return reshape(record_all(kMoments, {reshape(axes_to_last(x, axes), rows)})[1], shape);
}

Tensor spread(const char* op, const Tensor& x, const Axes& axes, double correction, bool keepdims, bool root) {
  require_plain(op, x);
  const Tensor real = cast(x, as_float(x.dtype()));
  const std::vector<int> found = axes.of(op, x.shape());
  const auto count = static_cast<double>(count_of(x.shape(), found));
  const double rest = count - correction;
  const DType dtype = real.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Tensor y = mean_square(real, found) * scalar(x.device(), rest > 0 ? count / rest : NAN, dtype);
  if (root) y = sqrt_of_squares(y);
  return shaped(cast(y, real.dtype()), without(x.shape(), found, keepdims));
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdims) {
  require_plain("sum", x);
  const Tensor summed = for_sum(x);
  if (is_floating(summed.dtype())) return reduce(kSum, summed, axes, keepdims, summed.dtype());
  // Kernels widen i32 as they read it; without axes, nothing is read.
  const std::vector<int> found = axes.of("sum", x.shape());
  const Tensor y = cast(reduce_groups(kSum, reducible(summed), found), DType::i64);
  return shaped(y, without(x.shape(), found, keepdims));
}
Tensor prod(const Tensor& x, const Axes& axes, bool keepdims) {
  require_plain("prod", x);
  const Tensor factors = for_sum(x);
  return reduce(kProd, factors, axes, keepdims, sum_dtype(factors.dtype()));
}
Tensor max(const Tensor& x, const Axes& axes, bool keepdims) { return extreme(kMax, x, axes, keepdims); }
Tensor min(const Tensor& x, const Axes& axes, bool keepdims) { return extreme(kMin, x, axes, keepdims); }
Tensor argmax(const Tensor& x, std::optional<int64_t> axis, bool keepdims) { return place(kArgmax, x, axis, keepdims); }
Tensor argmin(const Tensor& x, std::optional<int64_t> axis, bool keepdims) { return place(kArgmin, x, axis, keepdims); }
Tensor any(const Tensor& x, const Axes& axes, bool keepdims) { return flags("any", kMax, x, axes, keepdims); }
Tensor all(const Tensor& x, const Axes& axes, bool keepdims) { return flags("all", kMin, x, axes, keepdims); }

Tensor mean(const Tensor& x, const Axes& axes, bool keepdims) {
  require_plain("mean", x);
  const DType dtype = as_float(for_sum(x).dtype());
  const std::vector<int> found = axes.of("mean", x.shape());
  const Tensor total = reduce_groups(kSum, reducible(cast(x, dtype)), found);
  const double share = 1.0 / static_cast<double>(count_of(x.shape(), found));
  const Tensor y = cast(total * scalar(x.device(), share, total.dtype()), dtype);
  return shaped(y, without(x.shape(), found, keepdims));
}

Tensor var(const Tensor& x, const Axes& axes, double correction, bool keepdims) {
  return spread("var", x, axes, correction, keepdims, false);
}
Tensor std(const Tensor& x, const Axes& axes, double correction, bool keepdims) {
  return spread("std", x, axes, correction, keepdims, true);
}

// log sum exp(x) = m + log sum exp(x - m) with m the largest element; m is 0 if that is infinite or x has no elements.
Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims) {
  require_plain("logsumexp", x);
  const DType dtype = as_float(for_sum(x).dtype());
  const std::vector<int> found = axes.of("logsumexp", x.shape());
  const Tensor wide = computed(cast(x, dtype));
  const Tensor largest = reduce_groups(kMax, wide, found), zero = scalar(x.device(), 0, wide.dtype());
  const Tensor m = detach(where(isfinite(largest), largest, zero));  // the result does not depend on it
  const Tensor y = m + log(reduce_groups(kSum, exp(wide - m), found));
  return shaped(cast(y, dtype), without(x.shape(), found, keepdims));
}

Tensor cumsum(const Tensor& x, int64_t axis) {
  require_plain("cumsum", x);
  const DType own = for_sum(x).dtype(), dtype = sum_dtype(own);
  const int index = x.shape().axis("cumsum", axis);
  if (x.shape().elements() == 0) return cast(x, dtype);
  // The op itself makes i64 from i32.
  const bool narrow = dtype == DType::i64 && own != DType::i64;
  return axis_from_last(record(kCumsum, {axis_to_last(cast(x, narrow ? DType::i32 : dtype), index)}), index);
}

}  // namespace gabbro
