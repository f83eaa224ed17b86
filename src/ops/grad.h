// Gradients inside the library; gabbro/ops/grad.h has what users call.
#pragma once

#include "gabbro/ops/grad.h"
#include "src/graph/history.h"

namespace gabbro {

// The gradients of a node by its op's composition, whatever rule the op has; for rules that have no closed form.
Gradients gradient_of_composition(const Op& op, const GradientArgs& args);

}  // namespace gabbro
