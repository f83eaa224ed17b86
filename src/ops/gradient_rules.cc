#include "src/ops/gradient_rules.h"

#include "src/ops/rules.h"

namespace gabbro {
Tensor number_like(const Tensor& like, double value) { return filled_like(like, Shape{}, value); }

Tensor filled_like(const Tensor& like, const Shape& shape, double value) {
  return full(like.device(), shape, value, like.dtype());
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int more = x.shape().rank() - shape.rank();
  std::vector<int64_t> axes;
  for (int axis = 0; axis < x.shape().rank(); ++axis)
    if (x.shape()[axis] != 1 && (axis < more || shape[axis - more] == 1)) axes.push_back(axis);
  return reshape(sum(x, Axes(axes)), shape);
}

Tensor widened(const Tensor& x) { return is_half(x.dtype()) ? cast(x, DType::f32) : x; }

Tensor where_or_zero(const Tensor& condition, const Tensor& x) { return where(condition, x, number_like(x, 0)); }

}  // namespace gabbro
