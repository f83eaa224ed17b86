// The operands of the ops that slide a window over images, for any device: x [N, C, D, H, W], contiguous, of f32, f16
// or bf16. Tap t of the window of output o is at o · stride - padding + t · dilation, along each axis.
#pragma once

#include "backends/common/request.h"

namespace gabbro::abi {

struct Window {
  int64_t in[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
  int64_t inputs() const { return in[0] * in[1] * in[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t outputs() const { return out[0] * out[1] * out[2]; }
};

// im2col: to [N, C · taps, outputs]; inputs outside the image are `value`.
struct Im2colRequest {
  Window window;
  int64_t planes = 0;  // N · C
  DType dtype = DType::f32;
  float value = 0;
};
bool read_im2col(const KernelRequest& request, Im2colRequest& im2col);

// conv: weight [O, C / groups, kernel...], bias f32 [O]? to [N, O, out...]. conv_transpose: weight [C, O / groups,
// kernel...], and the window slides over y: `in` are y's lengths, and `out` x's. Weights have x's dtype.
struct ConvRequest {
  Window window;
  int64_t images = 0;
  int64_t groups = 1;
  int64_t in_channels = 0;   // of a group
  int64_t out_channels = 0;  // of a group
  bool bias = false;
  DType dtype = DType::f32;
};
bool read_conv(const KernelRequest& request, ConvRequest& conv);
bool read_conv_transpose(const KernelRequest& request, ConvRequest& conv);
// conv_weight_gradient: x, dy [N, O, out...] to the gradient of the weights of the conv of x that gave y. No bias.
bool read_conv_weight_gradient(const KernelRequest& request, ConvRequest& conv);

// conv_nhwc: x [N, H, W, C], weight [O, kernel..., C], then optional bias f32 [O], shift [N, O] and residual
// [N, out..., O], to [N, out..., O]. The window's first axis has the length 1.
struct ConvNhwcRequest {
  Window window;
  int64_t images = 0;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  int bias = -1, shift = -1, residual = -1;  // their inputs' numbers; -1: none
  int64_t shift_step = 0;                    // elements from image to image
  bool doubled = false;                      // x has half the sides of window.in
  DType dtype = DType::f32;
};
bool read_conv_nhwc(const KernelRequest& request, ConvNhwcRequest& conv);

// pool: to [N, C, out...].
struct PoolRequest {
  Window window;
  int64_t planes = 0;  // N · C
  DType dtype = DType::f32;
  bool largest = false;         // else the mean
  bool counts_padding = false;  // in the mean
};
bool read_pool(const KernelRequest& request, PoolRequest& pool);
// max_pool_gradient: x, dy [N, C, out...] to what x gets.
bool read_max_pool_gradient(const KernelRequest& request, PoolRequest& pool);

// adaptive_avg_pool2d and upsample2d: x [N, C, H, W] to [N, C, out...].
struct ResizeRequest {
  int64_t planes = 0;  // N · C
  int64_t in[2], out[2];
  DType dtype = DType::f32;
  int64_t mode = 0;              // 0: the mean of what an output covers, 1: the nearest, 2: bilinear
  bool aligned_corners = false;  // bilinear: the centers of the corner elements coincide, else their corners
  float step[2] = {0, 0};        // inputs from one output to the next; 0: in / out
};
bool read_resize(const KernelRequest& request, ResizeRequest& resize);

}  // namespace gabbro::abi
