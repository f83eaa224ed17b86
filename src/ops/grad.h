// Gradients inside the library; gabbro/ops/grad.h has what users call.
#pragma once

#include "gabbro/ops/grad.h"
#include "src/graph/history.h"

namespace gabbro {

// The gradient as an object, which the next value of a leaf can take over; null: the leaf has none.
std::shared_ptr<Tensor> gradient_object(const Tensor& leaf);
// Gives a leaf without a gradient this one. A null pointer changes nothing.
void take_gradient(const Tensor& leaf, std::shared_ptr<Tensor> gradient);
// Makes the elements of the gradient 0, if there is a gradient.
void zero_gradient(const Tensor& leaf);

// The gradients of a node by its op's composition, whatever rule the op has; for rules that have no closed form.
Gradients gradient_of_composition(const Op& op, const GradientArgs& args);

}  // namespace gabbro
