#include "src/models/diffusion/image_layout.h"

#include "gabbro/ops/image.h"
#include "gabbro/ops/shapes.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {

ImageSides sides_of(const Tensor& image) {
  const Shape& s = image.shape();
  return has_channels_last(image) ? ImageSides{s[1], s[2]} : ImageSides{s[2], s[3]};
}

Tensor image_in(const Tensor& planes, DType dtype) {
  return has_channels_last(dtype) ? permute(cast(planes, dtype), {0, 2, 3, 1}) : planes;
}

Tensor planes_of(const Tensor& image) {
  return has_channels_last(image) ? permute(cast(image, DType::f32), {0, 3, 1, 2}) : image;
}

Tensor contiguous_planes_of(const Tensor& image) {
  return has_channels_last(image) ? cast(permute(image, {0, 3, 1, 2}), DType::f32) : image;
}

Tensor tokens_of(const Tensor& image) {
  const Shape& s = image.shape();
  if (has_channels_last(image)) return reshape(image, Shape{s[0], s[1] * s[2], s[3]});
  return permute(reshape(image, Shape{s[0], s[1], s[2] * s[3]}), {0, 2, 1});
}

Tensor image_of_tokens(const Tensor& tokens, const Tensor& like) {
  return reshape(has_channels_last(like) ? tokens : permute(tokens, {0, 2, 1}), like.shape());
}

Tensor concat_channels(const Tensor& a, const Tensor& b) { return concat({a, b}, has_channels_last(a) ? 3 : 1); }

Tensor resize_nearest(const Tensor& image, int64_t height, int64_t width) {
  if (!has_channels_last(image)) return upsample_nearest2d(image, height, width);
  return permute(upsample_nearest2d(permute(image, {0, 3, 1, 2}), height, width), {0, 2, 3, 1});
}

Tensor pad_at_end(const Tensor& image) {
  if (has_channels_last(image)) return pad(image, {{0, 0}, {0, 1}, {0, 1}, {0, 0}});
  return pad(image, {{0, 0}, {0, 0}, {0, 1}, {0, 1}});
}

}  // namespace gabbro::diffusion
