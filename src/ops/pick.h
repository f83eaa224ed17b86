// What indexing functions share.
#pragma once

#include "src/graph/node.h"

namespace gabbro {

// x's elements at `places`, i32 [K] within the axis, along it: [..., K, ...]. x is read where it lies, however many
// axes are before this one.
Tensor pick(const Tensor& x, const Tensor& places, int axis);

// Indices of any integer dtype as i32 within [0, length): negative ones count from the end.
Tensor places_of(const char* op, const Tensor& indices, int64_t length);

}  // namespace gabbro
