// Gradients held within bounds, between backward() and the step.
#pragma once

#include <span>

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::train {

// Multiplies all gradients by max_norm / norm where their common norm, which is the result (f32, ()), is larger
// (Pascanu et al. 2013). `power`: of the norm, 2 for the Euclidean one; infinity for the largest element. As PyTorch,
// it divides by norm + 1e-6. Parameters without gradients count for nothing: the norm of none is 0.
Tensor clip_gradient_norm(std::span<const nn::Slot> parameters, double max_norm, double power = 2);
// Holds each element within [-bound, bound].
void clip_gradient_value(std::span<const nn::Slot> parameters, double bound);

}  // namespace gabbro::train
#pragma GCC visibility pop
