// For ops whose kernels know the last axis alone.
#pragma once

#include "src/graph/node.h"

namespace gabbro {

// x with `axis` (0 <= axis < rank) moved to the end, the others in their order; and back. Views.
Tensor axis_to_last(const Tensor& x, int axis);
Tensor axis_from_last(const Tensor& x, int axis);

}  // namespace gabbro
