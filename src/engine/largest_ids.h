// The most likely token of each row of logits, as ops.
#pragma once

#include "src/tensor/tensor.h"

namespace gabbro {

// The place of the largest of each row of logits [R, V], the lowest of equals, or -1 where that is not finite: [R, 1],
// i32. A NaN is the largest, so that the sampler's rule holds for the others.
Tensor largest_ids(const Tensor& logits);
// As largest_ids(), with the known places of the largest.
Tensor finite_ids(const Tensor& logits, const Tensor& places);

}  // namespace gabbro
