// Conventions of all attention kernels: scores, and the merge of splits.
#pragma once

#include "kernels/attention/attention_merge.h"
#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

// The largest score where there is no key; finite, so that differences are never NaN.
inline constexpr float kNoMaximum = -1e30f;
inline constexpr float kLog2E = 1.4426950f, kLn2 = 0.69314718f;

// The factor of a sum of values relative to `maximum`, where the weights add up to `total`: a sink is one more
// weight, without a value. A row without keys gives zeros.
GPU_FUNCTION inline float final_factor(const float* sinks, i64 head, float maximum, float total) {
  if (total <= 0) return 0;
  if (sinks == nullptr) return 1 / total;
  const float highest = max_of(maximum, sinks[head]), factor = exp(maximum - highest);
  return factor / (total * factor + exp(sinks[head] - highest));
}

// One row, by a block.
template <class T>
GPU_FUNCTION inline void attention_merge(const AttentionMergeArgs& a) {
  const i64 row = static_cast<i64>(block_index().x) * a.heads + block_index().y;
  const i32 floats = partial_floats(a.dim);
  const float* partials = a.partials + row * a.splits * floats;
  float highest = kNoMaximum, total = 0;
  for (i32 s = 0; s < a.splits; ++s) highest = max_of(highest, partials[s * floats + a.dim]);
  for (i32 s = 0; s < a.splits; ++s)
    total += partials[s * floats + a.dim + 1] * exp(partials[s * floats + a.dim] - highest);
  const float factor = final_factor(a.sinks, block_index().y, highest, total);
  for (i32 d = static_cast<i32>(thread_index()); d < a.dim; d += static_cast<i32>(block_size())) {
    float value = 0;
    for (i32 s = 0; s < a.splits; ++s) value += partials[s * floats + d] * exp(partials[s * floats + a.dim] - highest);
    static_cast<T*>(a.y)[row * a.dim + d] = from_float<T>(value * factor);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
