#include "gabbro/train/clipping.h"

#include <cmath>

#include "src/base/error.h"
#include "src/ops/grad.h"
#include "src/ops/ops.h"

namespace gabbro::train {
namespace {

// Σ |x|^power as f32 (), or the largest |x|.
Tensor powers(const Tensor& x, double power) {
  const Tensor wide = cast(x, DType::f32);
  if (std::isinf(power)) return max(abs(wide), kAllAxes);
  if (power == 2) return sum(wide * wide, kAllAxes);
  return sum(pow(abs(wide), weak(wide, power)), kAllAxes);
}

}  // namespace

Tensor clip_gradient_norm(std::span<const nn::Slot> parameters, double max_norm, double power) {
  if (!(max_norm >= 0) || !(power > 0)) throw bad_input("[clip_gradient_norm] norm {} of power {}", max_norm, power);
  if (parameters.empty()) throw bad_input("[clip_gradient_norm] there are no parameters");
  const NoGrad no_grad;
  const TrainingNodes training;
  std::vector<Tensor> parts;
  for (const nn::Slot& slot : parameters) {
    const Tensor gradient = gradient_of(*slot.tensor);
    if (gradient.defined() && gradient.shape().elements() > 0) parts.push_back(powers(gradient, power));
  }
  if (parts.empty()) return full(parameters.front().tensor->device(), Shape{}, 0, DType::f32);
  const Tensor all = stack(parts);
  Tensor norm;
  if (std::isinf(power)) {
    norm = max(all, kAllAxes);
  } else {
    norm = power == 2 ? sqrt(sum(all, kAllAxes)) : pow(sum(all, kAllAxes), weak(all, 1 / power));
  }
  const Tensor factor = minimum(weak(norm, max_norm) / (norm + 1e-6), weak(norm, 1));
  for (const nn::Slot& slot : parameters) {
    const Tensor gradient = gradient_of(*slot.tensor);
    if (gradient.defined()) set_gradient(*slot.tensor, cast(gradient * factor, gradient.dtype()));
  }
  return norm;
}

void clip_gradient_value(std::span<const nn::Slot> parameters, double bound) {
  if (!(bound >= 0)) throw bad_input("[clip_gradient_value] a bound of {}", bound);
  const NoGrad no_grad;
  const TrainingNodes training;
  for (const nn::Slot& slot : parameters) {
    const Tensor gradient = gradient_of(*slot.tensor);
    if (gradient.defined()) set_gradient(*slot.tensor, clamp(gradient, -bound, bound));
  }
}

}  // namespace gabbro::train
