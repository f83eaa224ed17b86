#include "src/pictures/noise/torch_noise.h"

#include <cmath>
#include <numbers>

namespace gabbro::pictures {

float TorchNoise::uniform_float() {
  return static_cast<float>(static_cast<uint32_t>(engine_()) & 0xFFFFFFu) * 0x1p-24f;
}

double TorchNoise::uniform_double() {
  const uint64_t high = engine_(), low = engine_();
  return static_cast<double>(((high << 32) | low) & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

// Box and Muller (1958) of 16 uniform numbers in place: j and j + 8 are a pair.
void TorchNoise::fill_16(float* numbers) {
  for (size_t j = 0; j < 8; ++j) {
    const float radius = std::sqrt(-2 * std::log(1 - numbers[j]));
    const float angle = 2 * std::numbers::pi_v<float> * numbers[j + 8];
    numbers[j] = radius * std::cos(angle);
    numbers[j + 8] = radius * std::sin(angle);
  }
}

double TorchNoise::next_double() {
  if (cached_) {
    const double second = *cached_;
    cached_.reset();
    return second;
  }
  const double angle = 2 * std::numbers::pi * uniform_double();
  const double radius = std::sqrt(-2 * std::log1p(-uniform_double()));
  cached_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

std::vector<float> TorchNoise::normal(size_t count) {
  std::vector<float> numbers(count);
  if (count < 16) {
    for (float& number : numbers) number = static_cast<float>(next_double());
    return numbers;
  }
  for (float& number : numbers) number = uniform_float();
  for (size_t i = 0; i + 16 <= count; i += 16) fill_16(&numbers[i]);
  if (count % 16 != 0) {  // the last 16 are drawn again
    float* const last = &numbers[count - 16];
    for (size_t i = 0; i < 16; ++i) last[i] = uniform_float();
    fill_16(last);
  }
  return numbers;
}

}  // namespace gabbro::pictures
