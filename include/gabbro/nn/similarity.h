// Vectors along an axis: made of length 1, and the angles between them. Computed in f32 (f64 of f64), since squares of
// f16 overflow from 256 on.
#pragma once

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

// x / max(|x|, epsilon), with |x| the Euclidean norm along the axis, as torch.nn.functional.normalize. Integers and
// bool give f32. Throws bad_input "[normalize] ..." for an axis that x does not have.
Tensor normalize(const Tensor& x, int64_t axis = 1, double epsilon = 1e-12);

// The cosine of the angle between x1 and x2 along the axis, which leaves; shapes broadcast. A norm below epsilon counts
// as epsilon, but has the gradient of the norm, as torch.nn.functional.cosine_similarity. Throws bad_input
// "[cosine_similarity] ..." for shapes that do not broadcast, and an axis that they do not have.
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t axis = 1, double epsilon = 1e-8);

}  // namespace gabbro::nn
#pragma GCC visibility pop
