// Arguments of the kernels that slide a window over images x [N, C, D, H, W] of f32, f16 or bf16. Tap t of the window
// of output o is at o · stride - padding + t · dilation, along each axis.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

struct WindowAxes {
  i32 in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
};

// Kernels over a plane (an image's channel): im2col to [planes, taps, outputs], pool to [planes, outputs]. A thread per
// element.
struct PlaneArgs {
  const void* x;
  void* y;
  WindowAxes window;
  i64 total;           // elements of y
  float value;         // im2col: of inputs outside the plane
  i32 counts_padding;  // pool_mean: divides by all taps inside of the padded input, else by those inside of x
};

// conv: y [N, groups · out_channels, out...]; conv_transpose: y [N, groups · out_channels, in...], x [..., out...].
struct ConvArgs {
  const void* x;
  const void* weight;
  const float* bias;  // null: none
  void* y;
  WindowAxes window;
  i32 groups;
  i32 in_channels;    // of a group
  i32 out_channels;   // of a group
  i64 total;          // elements of y; conv_direct and conv_transpose, with a thread each
  u32 channel_tiles;  // conv_tiled, a block a tile of out_channels by outputs of a group of an image
  u32 output_tiles;
};
inline constexpr int kConvTile = 64;

// y [N, channels, plane...] += bias [channels], after a library's convolution; a thread an element.
struct ConvBiasArgs {
  void* y;
  const float* bias;
  i64 total;  // elements of y
  i32 channels;
  i32 plane;
};

// x [planes, in...] to y [planes, out...]; a thread an element.
struct ResizeArgs {
  const void* x;
  void* y;
  i32 in[2], out[2];
  float step[2];  // inputs from one output to the next; 0: in / out
  i64 total;
  i32 aligned_corners;  // bilinear: the centers of the corners coincide, else the corners do
};

}  // namespace gabbro::gpu
