#include "src/models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace gabbro::nn {
namespace {

// The pair whose wave turns `rotations` times within the original context (YaRN, equation 16 solved for the pair).
double pair_of_rotations(const RopeConfig& config, double rotations) {
  const double r = static_cast<double>(config.dimensions);
  return r * std::log(static_cast<double>(config.original_context) / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(config.base));
}

}  // namespace

double dynamic_base(const RopeConfig& config, int64_t length) {
  if (length <= config.original_context) return config.base;
  const double stretch = static_cast<double>(length) / static_cast<double>(config.original_context);
  const auto r = static_cast<double>(config.dimensions);
  return config.base * std::pow(config.factor * stretch - (config.factor - 1), r / (r - 2));
}

RopeFrequencies rope_frequencies(const RopeConfig& config, std::span<const float> factors) {
  const int64_t half = config.dimensions / 2;
  RopeFrequencies result{.inverse = std::vector<float>(static_cast<size_t>(half))};
  const bool yarn = config.scaling == RopeScaling::kYarn;
  const double first = yarn ? pair_of_rotations(config, config.beta_fast) : 0;
  const double last = yarn ? pair_of_rotations(config, config.beta_slow) : 0;
  const double low = std::max(0.0, config.whole_pairs ? std::floor(first) : first);
  const double high = std::min(static_cast<double>(config.dimensions - 1), config.whole_pairs ? std::ceil(last) : last);
  for (int64_t i = 0; i < half; ++i) {
    double frequency = std::pow(config.base, -2.0 * static_cast<double>(i) / static_cast<double>(config.dimensions));
    if (!factors.empty()) frequency /= factors[static_cast<size_t>(i)];
    const double interpolated = frequency / config.factor;
    if (config.scaling == RopeScaling::kLinear) {
      frequency = interpolated;
    } else if (yarn) {
      const double ramp = 1 - std::clamp((static_cast<double>(i) - low) / std::max(0.001, high - low), 0.0, 1.0);
      const double keep = ramp * config.extrapolation;
      frequency = interpolated * (1 - keep) + frequency * keep;
    }
    result.inverse[static_cast<size_t>(i)] = static_cast<float>(frequency);
  }
  double magnitude = config.attention_factor;
  if (yarn && config.extrapolation != 0) magnitude *= 1 + 0.1 * std::log(config.factor);
  result.magnitude = static_cast<float>(magnitude);
  return result;
}

}  // namespace gabbro::nn
