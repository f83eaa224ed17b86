// Sizes of the convolution with 3 x 3 taps that reads a tile of pixels with its border once for all taps. Its arguments
// are ConvNhwcArgs.
#pragma once

#include "kernels/conv/conv_nhwc.h"

namespace gabbro::gpu {

inline constexpr int kHaloSide = 16;                  // of a block's tile of pixels
inline constexpr int kHaloDepth = 64, kHaloTaps = 9;  // channels of a chunk, whose pixels serve all taps
inline constexpr int kHaloThreads = 256;

}  // namespace gabbro::gpu
