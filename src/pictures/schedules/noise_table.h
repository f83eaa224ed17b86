// The noise levels that a model was trained with: β for each of its timesteps (Ho et al. 2020).
#pragma once

#include <cstdint>
#include <vector>

namespace gabbro::pictures {

enum class BetaSchedule { kLinear, kScaledLinear, kSquaredCosine };

struct NoiseTableOptions {
  int64_t timesteps = 1000;
  BetaSchedule schedule = BetaSchedule::kScaledLinear;
  double beta_start = 0.00085, beta_end = 0.012;
  std::vector<float> trained_betas{};  // in place of the schedule; empty: none
  // Rescaled so that the last timestep is pure noise (Lin et al. 2024): its alpha is 0.
  bool zero_terminal_snr = false;
};

// Indexed by timestep; computed in f32, step by step as PyTorch does.
class NoiseTable {
 public:
  explicit NoiseTable(const NoiseTableOptions& options);

  size_t size() const { return alphas_.size(); }
  float alpha_bar(size_t t) const { return alphas_[t]; }  // the part of the picture in the variance
  float sigma(size_t t) const { return sigmas_[t]; }      // sqrt((1 - alpha_bar) / alpha_bar), ascending

  // Linear between two timesteps.
  double sigma_at(double t) const;
  // Linear in log sigma, held in 0 .. size - 1; the inverse of sigma at whole timesteps.
  double timestep_of(double sigma) const;
  // log-linear: e^(the logarithm between two timesteps).
  double log_sigma_at(double t) const;

 private:
  std::vector<float> alphas_, sigmas_, log_sigmas_;
};

}  // namespace gabbro::pictures
