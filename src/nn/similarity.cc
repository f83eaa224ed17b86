#include "gabbro/nn/similarity.h"

#include "src/ops/functions/smooth.h"
#include "src/ops/grad.h"
#include "src/ops/ops.h"
#include "src/ops/promotion.h"
#include "src/ops/rules.h"

namespace gabbro::nn {
namespace {

Tensor widened(const Tensor& x) { return cast(x, x.dtype() == DType::f64 ? DType::f64 : DType::f32); }

// Along the axis, which stays.
Tensor norm(const Tensor& x, int64_t axis) { return sqrt_of_squares(sum(x * x, axis, kKeepDims)); }

// x / max(|x|, epsilon), with the gradient of x / |x| for a norm of max(|x|, epsilon).
Tensor direction(const Tensor& x, int64_t axis, double epsilon) {
  const Tensor length = norm(x, axis), least = weak(length, epsilon);
  return x / where(less(length, least), length + detach(least - length), length);
}

}  // namespace

Tensor normalize(const Tensor& x, int64_t axis, double epsilon) {
  require_plain("normalize", x);
  const int index = x.shape().axis("normalize", axis);
  const Tensor wide = widened(x), length = norm(wide, index);
  return cast(wide / maximum(length, weak(length, epsilon)), as_float(x.dtype()));
}

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t axis, double epsilon) {
  const auto [a, b] = promoted("cosine_similarity", x1, x2);
  const Shape shape = broadcast_shapes("cosine_similarity", a.shape(), b.shape());
  const int index = shape.axis("cosine_similarity", axis);
  const auto directed = [&](const Tensor& x) {
    const Tensor wide = widened(x);
    return direction(wide.shape() == shape ? wide : broadcast_to(wide, shape), index, epsilon);
  };
  return cast(sum(directed(a) * directed(b), index), as_float(a.dtype()));
}

}  // namespace gabbro::nn
