#include "src/pictures/masks.h"

#include <algorithm>
#include <cmath>

namespace gabbro::pictures {
namespace {

constexpr int kHalf = 128;  // of 255, rounded up

float reduce_block(const images::Picture& mask, int64_t top, int64_t left, int64_t factor, MaskReduction reduction) {
  const auto at = [&](int64_t y, int64_t x) {
    return static_cast<int>(mask.pixels[static_cast<size_t>((top + y) * mask.width + left + x)]);
  };
  if (reduction == MaskReduction::kNearest) return at(0, 0) >= kHalf ? 1 : 0;
  if (reduction == MaskReduction::kBilinear) {
    // The center of an even block is between four pixels.
    const int64_t high = factor / 2, low = std::max<int64_t>(0, factor % 2 == 0 ? high - 1 : high);
    return static_cast<float>(at(low, low) + at(low, high) + at(high, low) + at(high, high)) / (4 * 255);
  }
  int64_t sum = 0, most = 0;
  for (int64_t y = 0; y < factor; ++y) {
    for (int64_t x = 0; x < factor; ++x) {
      sum += at(y, x);
      most = std::max<int64_t>(most, at(y, x));
    }
  }
  if (reduction == MaskReduction::kAny) return most > 0 ? 1 : 0;
  return std::nearbyint(static_cast<float>(sum) / static_cast<float>(255 * factor * factor));
}

}  // namespace

MaskReduction mask_reduction(Program program) {
  switch (program) {
    case Program::kDiffusers:
      return MaskReduction::kNearest;
    case Program::kComfyUi:
      return MaskReduction::kBilinear;
    case Program::kA1111:
      return MaskReduction::kMean;
    case Program::kGabbro:
      break;
  }
  return MaskReduction::kAny;
}

std::vector<float> reduce_mask(const images::Picture& mask, int64_t factor, MaskReduction reduction) {
  std::vector<float> reduced;
  for (int64_t y = 0; y + factor <= mask.height; y += factor) {
    for (int64_t x = 0; x + factor <= mask.width; x += factor)
      reduced.push_back(reduce_block(mask, y, x, factor, reduction));
  }
  return reduced;
}

images::Picture to_gray(const images::Picture& rgb) {
  images::Picture gray{.width = rgb.width, .height = rgb.height, .channels = 1};
  for (size_t i = 0; i + 2 < rgb.pixels.size(); i += 3) {
    const unsigned sum = rgb.pixels[i] * 19595u + rgb.pixels[i + 1] * 38470u + rgb.pixels[i + 2] * 7471u;
    gray.pixels.push_back(static_cast<uint8_t>((sum + 0x8000) >> 16));
  }
  return gray;
}

void paste_unmasked(images::Picture& drawn, const images::Picture& original, const images::Picture& mask) {
  for (size_t i = 0; i < drawn.pixels.size(); ++i) {
    const unsigned weight = mask.pixels[i / 3];
    const unsigned sum = drawn.pixels[i] * weight + original.pixels[i] * (255 - weight);
    drawn.pixels[i] = static_cast<uint8_t>((sum + 127) / 255);
  }
}

void keep_unmasked(std::vector<float>& x, const std::vector<float>& known, const std::vector<float>& mask) {
  for (size_t i = 0; i < x.size(); ++i) {
    const float share = mask[i % mask.size()];
    x[i] = share * x[i] + (1 - share) * known[i];
  }
}

}  // namespace gabbro::pictures
