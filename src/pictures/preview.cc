#include "src/pictures/preview.h"

#include <algorithm>
#include <cmath>

namespace gabbro::pictures {
namespace {

// Red, green and blue of a channel of the latents of Stable Diffusion 1 and 2, on a scale of -1 to 1. Only roughly: the
// first channel is mostly brightness, the others are differences of colors.
constexpr float kColors[4][3] = {
    {0.35f, 0.23f, 0.32f}, {0.33f, 0.50f, 0.18f}, {-0.28f, 0.18f, 0.27f}, {-0.21f, -0.26f, -0.72f}};

uint8_t to_byte(float value) {
  return static_cast<uint8_t>(std::clamp(std::nearbyint((value + 1) * 127.5f), 0.0f, 255.0f));
}

}  // namespace

images::Picture linear_preview(const PictureStep& step) {
  images::Picture picture{.width = step.width, .height = step.height};
  const auto pixels = static_cast<size_t>(step.width * step.height);
  picture.pixels.resize(3 * pixels);
  for (size_t i = 0; i < pixels; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      float value = step.latent[i] / 4;
      if (step.channels == 4) {
        value = 0;
        for (size_t k = 0; k < 4; ++k) value += kColors[k][c] * step.latent[k * pixels + i];
      }
      picture.pixels[3 * i + c] = to_byte(value);
    }
  }
  return picture;
}

}  // namespace gabbro::pictures
