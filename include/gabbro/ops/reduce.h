// Reductions, running sums and sorting.
#pragma once

#include <optional>

#include "gabbro/ops/axes.h"
#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

// Over axes: kAllAxes, one, or several; the result lacks them, or with kKeepDims has length 1 there. A NaN gives NaN.
Tensor sum(const Tensor& x, const Axes& axes, bool keepdims = false);  // of nothing 0
Tensor prod(const Tensor& x, const Axes& axes, bool keepdims = false);
Tensor mean(const Tensor& x, const Axes& axes, bool keepdims = false);
Tensor max(const Tensor& x, const Axes& axes, bool keepdims = false);  // of nothing: refused
Tensor min(const Tensor& x, const Axes& axes, bool keepdims = false);
// sum((x - mean)²) / (count - correction); NaN where count <= correction. PyTorch's correction is 1, NumPy's 0.
Tensor var(const Tensor& x, const Axes& axes, double correction = 1, bool keepdims = false);
Tensor std(const Tensor& x, const Axes& axes, double correction = 1, bool keepdims = false);
Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims = false);  // of nothing -infinity
Tensor any(const Tensor& x, const Axes& axes, bool keepdims = false);        // bool
Tensor all(const Tensor& x, const Axes& axes, bool keepdims = false);
// i32: the place of the first of equals, or of the first NaN, along an axis, or among all elements in row-major order.
Tensor argmax(const Tensor& x, std::optional<int64_t> axis, bool keepdims = false);
Tensor argmin(const Tensor& x, std::optional<int64_t> axis, bool keepdims = false);
// Sums up to each element along an axis: x's shape, in the dtype of sum.
Tensor cumsum(const Tensor& x, int64_t axis = -1);

// Along an axis, of any number or bool: stable; NaNs come after all numbers, so first where the largest do.
struct TopK {
  Tensor values;   // x's shape, with k along the axis
  Tensor indices;  // i32
};
Tensor sort(const Tensor& x, int64_t axis = -1, bool descending = false);
Tensor argsort(const Tensor& x, int64_t axis = -1, bool descending = false);    // i32
TopK topk(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true);  // the first k of sort

}  // namespace gabbro
#pragma GCC visibility pop
