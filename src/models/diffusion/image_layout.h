// The layout of images inside of a network: f32 is [B, C, H, W]; f16 and bf16 are [B, H, W, C], which kernels on
// matrix cores read. Shapes in the comments of layers are [B, C, H, W] for both.
#pragma once

#include "gabbro/tensor/tensor.h"

namespace gabbro::diffusion {

inline bool has_channels_last(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
inline bool has_channels_last(const Tensor& image) { return has_channels_last(image.dtype()); }

struct ImageSides {
  int64_t height = 0, width = 0;
};
ImageSides sides_of(const Tensor& image);

// f32 [B, C, H, W] to the layout of `dtype`, and back.
Tensor image_in(const Tensor& planes, DType dtype);
Tensor planes_of(const Tensor& image);
// Contiguous planes, which the host reads as fast as the device copies them.
Tensor contiguous_planes_of(const Tensor& image);

// The pixels as rows, [B, H · W, C], and back to the layout and sides of `like`.
Tensor tokens_of(const Tensor& image);
Tensor image_of_tokens(const Tensor& tokens, const Tensor& like);

Tensor concat_channels(const Tensor& a, const Tensor& b);
// The nearest elements at a new size.
Tensor resize_nearest(const Tensor& image, int64_t height, int64_t width);
// A row and a column of zeros at the bottom and the right.
Tensor pad_at_end(const Tensor& image);

}  // namespace gabbro::diffusion
