// Convolutions, pooling and resizing of images.
#pragma once

#include <cstdint>
#include <vector>

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

// Images x [N, C, ...] with one, two or three spatial axes, of f32, f16 or bf16; computed in f32. Numbers for the axes
// are one for all of them, or one for each. An op's window on x begins at o · stride - padding for output o
// and has steps of `dilation`; a window that does not fit in the padded x is refused.
struct ConvOptions {
  std::vector<int64_t> stride{1}, padding{0}, dilation{1};
  int64_t groups = 1;
};
// weight [O, C / groups, kernel...] of x's dtype, bias [O] of f32 or x's dtype, or none: y [N, O, ...].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
// weight [C, O / groups, kernel...]: what conv2d's gradient does. y's lengths are (in - 1) · stride - 2 · padding +
// dilation · (kernel - 1) + output_padding + 1.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {},
                        const std::vector<int64_t>& output_padding = {0});
struct ConvNhwcOptions {
  std::vector<int64_t> stride{1}, padding{0}, dilation{1};
  Tensor shift{};        // [N, O], added to all places of an image; or none
  Tensor residual{};     // of y's shape, added; or none
  bool doubled = false;  // convolves x at twice its sides, each pixel four times (the nearest), without making it
};
// x [N, H, W, C] with the channels last, weight [O, kernel H, kernel W, C], bias [O] of f32 or x's dtype, or none: y
// [N, H', W', O] in x's dtype, rounded once after all additions. shift and residual have x's dtype.
Tensor conv2d_nhwc(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvNhwcOptions& options = {});
// GroupNorm of x [N, ..., C] with the channels last: over all places of an image and the C / groups channels of a
// group; weight, bias [C] of f32 or x's dtype. `then_silu`: y · sigmoid(y) of the result, which is rounded once.
Tensor group_norm_nhwc(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, float epsilon,
                       bool then_silu = false);
// The elements of each window as columns: [N, C · kernel..., outputs]; elements outside x are `value`.
Tensor im2col(const Tensor& x, const std::vector<int64_t>& kernel, const ConvOptions& options = {}, double value = 0);

struct PoolOptions {
  std::vector<int64_t> kernel;
  std::vector<int64_t> stride{};  // none: the kernel's
  std::vector<int64_t> padding{0};
  std::vector<int64_t> dilation{1};
  bool counts_padding = true;  // avg_pool divides by all of the window's elements
};
Tensor max_pool1d(const Tensor& x, const PoolOptions& options);  // a NaN gives NaN
Tensor max_pool2d(const Tensor& x, const PoolOptions& options);
Tensor max_pool3d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool1d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool2d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool3d(const Tensor& x, const PoolOptions& options);

// x [N, C, H, W] to [N, C, height, width]. Adaptive: output o is the mean of inputs o · H / height, rounded down, to
// (o + 1) · H / height, rounded up. Nearest: input o · H / height, rounded down. Bilinear: as PyTorch's interpolate.
Tensor adaptive_avg_pool2d(const Tensor& x, int64_t height, int64_t width);
Tensor upsample_nearest2d(const Tensor& x, int64_t height, int64_t width);
Tensor upsample_bilinear2d(const Tensor& x, int64_t height, int64_t width, bool align_corners = false);

}  // namespace gabbro
#pragma GCC visibility pop
