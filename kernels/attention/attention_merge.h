// Split-K attention: the partial result of each block, and the launch that merges them.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

// A share's result: D sums of weighted values, then the largest score, and the sum of weights. Weights are relative to
// that score.
constexpr i32 partial_floats(i32 dim) { return dim + 2; }

// Grid (rows / heads, heads).
struct AttentionMergeArgs {
  const float* partials;  // [rows][splits][partial_floats(dim)]
  void* y;                // [rows][dim]
  const float* sinks;     // [heads] or null
  i32 heads;
  i32 dim;
  i32 splits;
};

}  // namespace gabbro::gpu
