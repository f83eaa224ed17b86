#include "src/pictures/picture_tensor.h"

#include <algorithm>
#include <cmath>

#include "gabbro/graph/eval.h"
#include "src/base/error.h"

namespace gabbro::pictures {

images::Picture picture_of(const Tensor& decoded, float scale, float shift) {
  const std::vector<float> values = to_host<float>(decoded);
  images::Picture picture{.width = decoded.shape()[3], .height = decoded.shape()[2]};
  const auto pixels = static_cast<size_t>(picture.width * picture.height);
  picture.pixels.resize(3 * pixels);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < pixels; ++i) {
      const float value = values[c * pixels + i];
      if (!std::isfinite(value)) throw failed("the decoded picture has values that are not numbers");
      // Rounded as diffusers does: to the nearest, ties to even.
      const float unit = std::clamp(value * scale + shift, 0.0f, 1.0f);
      picture.pixels[3 * i + c] = static_cast<uint8_t>(std::nearbyint(unit * 255));
    }
  }
  return picture;
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
