// Reductions over axes, by kernels that reduce the last one. Adjacent axes are reshaped to one, which is read in place;
// of other axes one group after the other is reduced, the last ones first, since most of the elements are gone then
// without a copy.
#include <algorithm>
#include <cmath>

#include "src/ops/autocast.h"
#include "src/ops/axis.h"
#include "src/ops/functions/smooth.h"
#include "src/ops/grad.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/promotion.h"
#include "src/ops/rules.h"

namespace gabbro {
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

// log sum exp(x) = m + log sum exp(x - m) with m the largest element; 0 where that is infinite, or where there is none.
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
