#include "src/pictures/picture_tensor.h"

#include "gabbro/graph/eval.h"
#include "src/base/error.h"
#include "src/ops/ops.h"

namespace gabbro::pictures {

std::vector<Tensor> pixels_of(const Tensor& decoded, float scale, float shift) {
  const auto number = [&](float value) { return scalar(decoded.device(), value); };
  const int64_t height = decoded.shape()[2], width = decoded.shape()[3];
  // In the order of the picture's bytes: the host would take 10 ms for a megapixel.
  const Tensor rows = permute(reshape(decoded, Shape{3, height, width}), {1, 2, 0});
  const Tensor unit = clamp(rows * number(scale) + number(shift), 0, 1);
  // Rounded as diffusers does: to the nearest, ties to even.
  return {cast(round(unit * number(255)), DType::u8), cast(all(isfinite(decoded), kAllAxes), DType::u8)};
}

std::optional<images::Picture> picture_if_finite(const Tensor& decoded, float scale, float shift,
                                                 const std::atomic<bool>* cancel) {
  const std::vector<Tensor> results = pixels_of(decoded, scale, shift);
  eval(results, cancel);
  if (to_host<uint8_t>(results[1]).front() == 0) return std::nullopt;
  return images::Picture{
      .width = decoded.shape()[3], .height = decoded.shape()[2], .pixels = to_host<uint8_t>(results[0])};
}

images::Picture picture_of(const Tensor& decoded, float scale, float shift, const std::atomic<bool>* cancel) {
  std::optional<images::Picture> picture = picture_if_finite(decoded, scale, shift, cancel);
  if (!picture) throw failed("the decoded picture has values that are not numbers");
  return std::move(*picture);
}

Tensor tensor_of(const images::Picture& picture, Device& device, const images::Picture* hidden) {
  const auto pixels = static_cast<size_t>(picture.width * picture.height);
  std::vector<float> values(3 * pixels);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < pixels; ++i) {
      const bool is_hidden = hidden != nullptr && hidden->pixels[i] >= 128;
      values[c * pixels + i] = is_hidden ? 0 : 2 * (static_cast<float>(picture.pixels[3 * i + c]) / 255) - 1;
    }
  }
  return device.upload(DType::f32, Shape{1, 3, picture.height, picture.width}, values.data());
}

}  // namespace gabbro::pictures
