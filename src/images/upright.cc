#include "src/images/upright.h"

#include <cstring>

namespace gabbro::images {

// Mirrored where the bits say so, and with the axes exchanged from 5 on.
void set_upright(Picture& picture, int orientation) {
  if (orientation == 1) return;
  const bool exchanged = orientation >= 5;
  const bool mirror_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool mirror_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const int64_t width = exchanged ? picture.height : picture.width, height = exchanged ? picture.width : picture.height;
  const auto channels = static_cast<size_t>(picture.channels);
  std::vector<uint8_t> pixels(picture.pixels.size());
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      int64_t from_x = exchanged ? y : x, from_y = exchanged ? x : y;
      if (mirror_x) from_x = picture.width - 1 - from_x;
      if (mirror_y) from_y = picture.height - 1 - from_y;
      std::memcpy(&pixels[static_cast<size_t>(y * width + x) * channels],
                  &picture.pixels[static_cast<size_t>(from_y * picture.width + from_x) * channels], channels);
    }
  }
  picture.width = width;
  picture.height = height;
  picture.pixels = std::move(pixels);
}

}  // namespace gabbro::images
