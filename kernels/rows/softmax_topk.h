// Arguments of the kernels of `softmax_topk`.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

// The `count` largest of softmax(x), the largest first and of equal ones the first, divided by their sum if
// `normalized`: a wave a row.
struct SoftmaxTopkArgs {
  const float* x;  // [rows][columns]
  float* values;   // [rows][count]
  i32* indices;
  i32 rows;
  i32 columns;
  i32 count;
  bool normalized;
};
inline constexpr int kSoftmaxTopkThreads = 128;
// Elements of a row that a lane holds, of the two kernels.
inline constexpr int kFewHeld = 4, kManyHeld = 16;

}  // namespace gabbro::gpu
