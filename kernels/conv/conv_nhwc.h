// Arguments of the convolution of images of f16 or bf16 whose channels are last.
#pragma once

#include "kernels/conv/window.h"

namespace gabbro::gpu {

struct ConvNhwcArgs {
  const void* x;         // [N, in..., channels], or with half of these sides
  const void* weight;    // [outputs, taps, channels]
  const float* bias;     // [outputs], or null
  const void* shift;     // [N, outputs] with this step from image to image, or null
  const void* residual;  // as y, or null
  void* y;               // [N, out..., outputs]
  float* partials;       // [splits, pixels, outputs], of several splits
  WindowAxes window;     // whose first axis has the length 1
  i32 channels;
  i32 outputs;
  i32 shift_step;
  i32 doubled;       // 1: each pixel of x is seen four times, at twice its row and column; else 0
  i32 loose;         // x and weight are not whole vectors of 16 bytes, and loaded by elements
  i32 pixels;        // N · out...
  i32 column_tiles;  // of outputs; a block has one of them, and one of pixels
  i32 splits;        // of the steps over taps and channels, along the grid's y
};
inline constexpr int kConvTilePixels = 128, kConvTileOutputs = 128, kConvThreads = 256;
inline constexpr int kConvDepth = 32;    // channels of a step
inline constexpr int kConvFinished = 4;  // elements of a thread that adds up splits

}  // namespace gabbro::gpu
