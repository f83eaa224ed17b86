// Euler's method, also with new noise in each step, and Heun's (Karras et al. 2022, algorithms 1 and 2).
#include "src/pictures/samplers/weighted_sum.h"

namespace gabbro::pictures {
namespace {

// x + (x - picture) / from · (to - from)
Latent euler_step(const Latent& x, const Latent& picture, double from, double to) {
  const double slope = (to - from) / from;
  return weighted_sum({{1 + slope, x}, {-slope, picture}});
}

}  // namespace

Latent sample_euler(Latent x, const SamplerRun& run) {
  const Schedule& s = run.schedule;
  x = to_ratio_form(x, s.levels.front());
  for (size_t i = 0; i < s.steps(); ++i) {
    x = euler_step(x, picture_in(x, s.levels[i], run.model), s.levels[i].ratio, s.targets[i].ratio);
    finish_step(x, i, run, StateForm::kRatio);
  }
  return from_ratio_form(x, s.targets.back());
}

Latent sample_euler_ancestral(Latent x, const SamplerRun& run) {
  const Schedule& s = run.schedule;
  x = to_ratio_form(x, s.levels.front());
  for (size_t i = 0; i < s.steps(); ++i) {
    const double from = s.levels[i].ratio;
    const AncestralStep step = ancestral_step(from, s.targets[i].ratio, run.options.eta.value_or(1));
    x = euler_step(x, picture_in(x, s.levels[i], run.model), from, step.down);
    // Also where its factor is 0, as diffusers draws it: the next picture of a stream gets the same numbers.
    const Latent noise = run.noise.normal(x.size());
    x = weighted_sum({{1, x}, {step.up, noise}});
    finish_step(x, i, run, StateForm::kRatio);
  }
  return from_ratio_form(x, s.targets.back());
}

Latent sample_heun(Latent x, const SamplerRun& run) {
  const Schedule& s = run.schedule;
  x = to_ratio_form(x, s.levels.front());
  for (size_t i = 0; i < s.steps(); ++i) {
    const double from = s.levels[i].ratio, to = s.targets[i].ratio;
    const Latent picture = picture_in(x, s.levels[i], run.model);
    const Latent guess = euler_step(x, picture, from, to);
    if (to == 0) {
      x = guess;
    } else {
      const Latent second = picture_in(guess, s.targets[i], run.model);
      // The mean of both slopes.
      const double half = (to - from) / 2;
      x = weighted_sum({{1 + half / from, x}, {-half / from, picture}, {half / to, guess}, {-half / to, second}});
    }
    finish_step(x, i, run, StateForm::kRatio);
  }
  return from_ratio_form(x, s.targets.back());
}

}  // namespace gabbro::pictures
