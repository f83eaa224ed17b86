// Arguments of the kernel that tests graphs of launches (backends/gpu/graph_check.h).
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

inline constexpr u32 kGraphStepElements = 64;  // of `from` and `to`, for one block

// to[i] = from[i] * kGraphStepFactor + *word, modulo 2^32.
inline constexpr u32 kGraphStepFactor = 1664525;
struct GraphStepArgs {
  const u32* word;
  const u32* from;
  u32* to;
};

}  // namespace gabbro::gpu
