#include "src/pictures/guidance.h"

#include <cmath>

namespace gabbro::pictures {
namespace {

// The sample's standard deviation, as torch.std has it.
double deviation(std::span<const float> values) {
  double sum = 0, squares = 0;
  for (const float value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

}  // namespace

std::vector<float> guided(std::span<const float> without, std::span<const float> with, double scale, double rescale) {
  const auto factor = static_cast<float>(scale);
  const size_t count = with.size();
  std::vector<float> result(count);
  const float* const base = without.data();
  const float* const target = with.data();
  float* const to = result.data();
  for (size_t i = 0; i < count; ++i) to[i] = base[i] + factor * (target[i] - base[i]);
  const double before = rescale > 0 && with.size() > 1 ? deviation(result) : 0;
  if (before > 0) {
    const auto share = static_cast<float>(rescale * deviation(with) / before + (1 - rescale));
    for (float& value : result) value *= share;
  }
  return result;
}

}  // namespace gabbro::pictures
