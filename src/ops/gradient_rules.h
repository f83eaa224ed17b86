// Helpers of the ops' gradient rules.
#pragma once

#include "src/graph/node.h"

namespace gabbro {

// A number in the dtype of `like`, of shape (), so that it leaves the shape of what it meets; and a tensor of that
// dtype that is the same number everywhere. Views.
Tensor number_like(const Tensor& like, double value);
Tensor filled_like(const Tensor& like, const Shape& shape, double value);

// The sum of x over the axes along which `shape` was broadcast to x's: what broadcasting does, backwards.
Tensor sum_to(const Tensor& x, const Shape& shape);

// f16 and bf16 in f32, everything else unchanged.
Tensor widened(const Tensor& x);

// x where the condition holds, else 0: nothing that is undefined there comes through.
Tensor where_or_zero(const Tensor& condition, const Tensor& x);

// The gradient of y = f(x), of one shape: formula(x, y, dy), computed in f32 or wider and rounded once.
template <class Formula>
Gradients elementwise_gradient(const GradientArgs& a, Formula formula);

// For step functions: zero wherever they have a gradient.
inline Gradients no_gradient(const GradientArgs& a) { return Gradients(a.size()); }

}  // namespace gabbro

#include "src/ops/ops.h"

namespace gabbro {

template <class Formula>
Gradients elementwise_gradient(const GradientArgs& a, Formula formula) {
  return {cast(formula(widened(a[0]), widened(a.outputs[0]), widened(a.gradients[0])), a[0].dtype())};
}

}  // namespace gabbro
