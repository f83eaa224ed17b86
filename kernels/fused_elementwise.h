// What a kernel that is made at run time for the fused op `elementwise` (docs/fused_ops.md) is given.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

inline constexpr int kFusedInputs = 8;
inline constexpr int kFusedOutputs = 4;
inline constexpr int kFusedConstants = 16;
inline constexpr int kFusedAxes = 6;

// How an input lies, which its kernel is made for: element for element as the outputs; one number for all; or in a way
// of its own, by the axes, where the elements that a thread moves at once lie together (kPacks) or are one (kRepeated),
// or neither.
enum class FusedLayout : i32 { kAsOutput, kNumber, kPacks, kRepeated, kStrided };

struct FusedElementwiseArgs {
  const void* in[kFusedInputs];
  void* out[kFusedOutputs];
  u64 constants[kFusedConstants];  // each an element, in the low bytes
  i64 total;                       // elements
  i32 rank;                        // of the axes of inputs that lie in a way of their own; number 0 is the fastest
  i64 shape[kFusedAxes];
  i64 strides[kFusedInputs][kFusedAxes];  // in elements
};

}  // namespace gabbro::gpu
