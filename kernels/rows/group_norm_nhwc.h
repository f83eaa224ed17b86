// Arguments of the GroupNorm of images of f16, bf16 or f32 whose channels are last.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

struct GroupNormNhwcArgs {
  const void* x;  // [images, places, channels]
  void* y;
  const float* weight;          // [channels]
  const float* bias;            // [channels]
  FloatPair* partials;          // [images, slices, groups]: the mean, and the sum of squared distances from it
  FloatPair* groups_of_images;  // [images, groups]: the mean, and 1 / sqrt(variance + epsilon)
  u32* arrived;                 // [images], zeros; slices that are done
  i32 places;                   // of an image
  i32 channels;                 // whole 16-byte vectors, at most kMostNormChannels
  i32 groups;                   // at most kMostNormGroups
  i32 slice;                    // places of a slice, fewer of the last one
  i32 slices;                   // of an image, along the grid's x; images are along its y
  i32 silu;                     // whether SiLU follows
  i32 loose;                    // x or y is not aligned to 16 bytes
  float epsilon;
};
inline constexpr int kMostNormChannels = 4096, kMostNormGroups = 256, kNormThreads = 256;

}  // namespace gabbro::gpu
