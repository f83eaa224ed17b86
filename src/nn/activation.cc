#include "gabbro/nn/activation.h"

#include "gabbro/nn/init.h"
#include "src/base/error.h"
#include "src/ops/functions/smooth.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro::nn {
namespace {

// x above 0, below(x) below, with a gradient of `slope` at 0, and no other derivatives there. Nothing overflows where
// it is not used.
template <class F>
Tensor by_sign(const Tensor& x, double slope, F below) {
  return computed_in_f32(x, [&](const Tensor& v) {
    const Tensor zero = weak(v, 0), is_below = less(v, zero);
    const Tensor rest = slope == 1 ? v : where(less_equal(v, zero), v * slope, v);
    return where(is_below, below(where(is_below, v, zero)), rest);
  });
}

}  // namespace

Tensor relu6(const Tensor& x) { return clamp(x, 0, 6); }

Tensor leaky_relu(const Tensor& x, double slope) {
  return computed_in_f32(x, [&](const Tensor& v) { return where(greater(v, weak(v, 0)), v, v * slope); });
}

Tensor elu(const Tensor& x, double alpha) {
  return by_sign(x, alpha, [&](const Tensor& v) { return expm1(v) * alpha; });
}

Tensor celu(const Tensor& x, double alpha) {
  return by_sign(x, 1, [&](const Tensor& v) { return expm1(v / alpha) * alpha; });
}

Tensor selu(const Tensor& x) {
  constexpr double kAlpha = 1.6732632423543772, kScale = 1.0507009873554805;  // the paper's section "SNNs"
  return computed_in_f32(x, [](const Tensor& v) { return elu(v, kAlpha) * kScale; });
}

Tensor mish(const Tensor& x) {
  return computed_in_f32(x, [](const Tensor& v) { return v * tanh(log_one_plus_exp(v)); });
}

Tensor softplus(const Tensor& x, double beta, double threshold) {
  return computed_in_f32(x, [&](const Tensor& v) {
    const Tensor scaled = v * beta;
    return where(greater(scaled, weak(v, threshold)), v, log_one_plus_exp(scaled) / beta);
  });
}

Tensor softsign(const Tensor& x) {
  return computed_in_f32(x, [](const Tensor& v) { return v / (abs(v) + 1); });
}

Tensor log_sigmoid(const Tensor& x) {
  return computed_in_f32(x, [](const Tensor& v) { return neg(log_one_plus_exp(neg(v))); });
}

Tensor hard_tanh(const Tensor& x, double low, double high) { return clamp(x, low, high); }

Tensor hard_sigmoid(const Tensor& x) {
  return computed_in_f32(x, [](const Tensor& v) { return relu6(v + 3) / 6; });
}

Tensor hard_swish(const Tensor& x) {
  return computed_in_f32(x, [](const Tensor& v) { return v * hard_sigmoid(v); });
}

Tensor glu(const Tensor& x, int64_t axis) {
  require_defined("glu", x);
  const int index = x.shape().axis("glu", axis);
  const int64_t length = x.shape()[index];
  if (length % 2 != 0) throw bad_input("[glu] the length of axis {} of {} is odd", axis, x.shape().to_string());
  return slice(x, index, 0, length / 2) * sigmoid(slice(x, index, length / 2, length / 2));
}

int64_t implied_axis(const char* op, const Tensor& x, std::optional<int64_t> axis) {
  if (axis) return *axis;
  require_defined(op, x);
  if (x.shape().rank() > 2)
    throw bad_input("[{}] dim is needed for a tensor of {} axes: {}", op, x.shape().rank(), x.shape().to_string());
  return -1;
}

Tensor softmax_along(const Tensor& x, std::optional<int64_t> axis) {
  return softmax(x, implied_axis("softmax", x, axis));
}

Tensor log_softmax_along(const Tensor& x, std::optional<int64_t> axis) {
  return log_softmax(x, implied_axis("log_softmax", x, axis));
}

PReLU::PReLU(const Factory& make, int64_t parameters, double slope) : first_slope_(slope) {
  add_parameter(make, "weight", weight, init::constant(make, Shape{parameters}, slope));
}

Tensor PReLU::forward(const Tensor& x) {
  require_defined("prelu", x);
  const int64_t slopes = weight.shape()[0];
  std::vector<int64_t> lengths(static_cast<size_t>(std::max(1, x.shape().rank())), 1);
  if (slopes > 1) {
    if (x.shape().rank() < 2 || x.shape()[1] != slopes)
      throw bad_input("[prelu] {} slopes do not fit the channels of {}", slopes, x.shape().to_string());
    lengths[1] = slopes;
  }
  const Tensor slope = reshape(weight, x.shape().rank() == 0 ? Shape{} : Shape(lengths));
  const Tensor zero = weak(x, 0), above = greater(x, zero);
  return where(above, x, slope * where(above, zero, x));
}

Tensor Flatten::forward(const Tensor& x) { return flatten(x, options_.first, options_.last); }

}  // namespace gabbro::nn
