// Arguments of a kernel that is compiled at run time for the fused op `elementwise` (docs/design/fused_ops.md).
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

inline constexpr int kFusedInputs = 8;
inline constexpr int kFusedOutputs = 4;
inline constexpr int kFusedConstants = 16;
inline constexpr int kFusedAxes = 6;

// Layout of an input, for which its kernel is compiled: that of the outputs; one number for all elements; or strided.
// If strided, the elements that a thread moves at once are contiguous (kPacks), equal (kRepeated), or neither.
enum class FusedLayout : i32 { kAsOutput, kNumber, kPacks, kRepeated, kStrided };

struct FusedElementwiseArgs {
  const void* in[kFusedInputs];
  void* out[kFusedOutputs];
  u64 constants[kFusedConstants];  // each an element, in the low bytes
  i64 total;                       // elements
  i32 rank;                        // axes of strided inputs; axis 0 is the fastest
  i64 shape[kFusedAxes];
  i64 strides[kFusedInputs][kFusedAxes];  // in elements
};

}  // namespace gabbro::gpu
