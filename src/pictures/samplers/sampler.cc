// The list of samplers, and what a model's output means.
#include "src/pictures/samplers/sampler.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "src/base/error.h"
#include "src/pictures/samplers/weighted_sum.h"

namespace gabbro::pictures {

Latent SamplerModel::picture_of(const Latent& x, const Latent& output, const NoiseLevel& level) const {
  const double alpha = level.alpha(), sigma = level.sigma();
  if (prediction == Prediction::kSample) return output;
  if (prediction == Prediction::kVelocity) return weighted_sum({{alpha, x}, {-sigma, output}});
  return weighted_sum({{1 / alpha, x}, {-level.ratio, output}});
}

Latent SamplerModel::noise_of(const Latent& x, const Latent& output, const NoiseLevel& level) const {
  const double alpha = level.alpha(), sigma = level.sigma();
  if (prediction == Prediction::kNoise) return output;
  if (prediction == Prediction::kVelocity) return weighted_sum({{sigma, x}, {alpha, output}});
  return weighted_sum({{1 / sigma, x}, {-alpha / sigma, output}});
}

std::span<const Sampler> samplers() {
  using enum TimestepStyle;
  static constexpr Sampler kSamplers[] = {
      {"euler", "Euler", kContinuous, 1, sample_euler},
      {"euler_a", "Euler a", kContinuous, 1, sample_euler_ancestral, true},
      {"heun", "Heun", kContinuous, 2, sample_heun},
      {"dpmpp_2m", "DPM++ 2M", kMultistep, 1, sample_dpmpp_2m},
      {"dpmpp_2m_sde", "DPM++ 2M SDE", kMultistep, 1, sample_dpmpp_2m_sde, true},
      {"dpmpp_sde", "DPM++ SDE", kContinuous, 2, sample_dpmpp_sde, true},
      {"unipc", "UniPC", kMultistep, 1, sample_unipc},
      {"ddim", "DDIM", kDiscrete, 1, sample_ddim, true},
      {"pndm", "PLMS", kDiscrete, 1, sample_pndm},
      {"lcm", "LCM", kConsistency, 1, sample_lcm},
      {"lms", "LMS", kContinuous, 1, sample_lms},
      {"ddpm", "DDPM", kDiscrete, 1, sample_ddpm},
      {"tcd", "TCD", kConsistency, 1, sample_tcd, true},
  };
  return kSamplers;
}

const Sampler& find_sampler(const std::string& name) {
  const auto plain = [](std::string_view text) {
    std::string folded;
    for (const char c : text) folded += c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(c));
    return folded;
  };
  const std::string wanted = plain(name);
  for (const Sampler& sampler : samplers()) {
    if (plain(sampler.name) == wanted || plain(sampler.title) == wanted) return sampler;
  }
  std::vector<std::string_view> names;
  for (const Sampler& sampler : samplers()) names.push_back(sampler.name);
  throw Error(ErrorCode::kBadInput, fmt::format("unknown sampler '{}'", name),
              fmt::format("samplers: {}", fmt::join(names, ", ")));
}

}  // namespace gabbro::pictures
