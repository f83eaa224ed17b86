// The arithmetic of samplers: sums of latents with factors.
#pragma once

#include <initializer_list>

#include "src/pictures/samplers/sampler.h"

namespace gabbro::pictures {

struct WeightedLatent {
  double factor;
  const Latent& latent;
};
// In f64, rounded once. The latents have equal lengths.
Latent weighted_sum(std::initializer_list<WeightedLatent> terms);

// Samplers after Karras et al. 2022 work on picture + ratio · noise.
inline Latent to_ratio_form(const Latent& x, const NoiseLevel& level) { return weighted_sum({{1 / level.alpha(), x}}); }
inline Latent from_ratio_form(const Latent& x, const NoiseLevel& level) { return weighted_sum({{level.alpha(), x}}); }
// The picture in x, which is in ratio form.
inline Latent picture_in(const Latent& x, const NoiseLevel& level, const SamplerModel& model) {
  return model.picture(from_ratio_form(x, level), level);
}

// Ends step i of a run, whose state is x.
enum class StateForm { kVariance, kRatio };
inline void finish_step(Latent& x, size_t i, const SamplerRun& run, StateForm form) {
  if (!run.after_step) return;
  const std::vector<NoiseLevel>& levels = run.schedule.levels;
  run.after_step(x, i + 1 < levels.size() ? levels[i + 1] : NoiseLevel{}, form == StateForm::kRatio);
}

// A step from `from` to `to` with new noise (Karras et al. 2022, section 4): to `down`, and `up` of noise.
struct AncestralStep {
  double down = 0, up = 0;
};
AncestralStep ancestral_step(double from, double to, double eta);

}  // namespace gabbro::pictures
