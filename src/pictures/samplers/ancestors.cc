// DDPM (Ho et al. 2020) and TCD (Zheng et al. 2024): steps of the distribution of x given the predicted picture.
#include "src/pictures/samplers/weighted_sum.h"

namespace gabbro::pictures {

Latent sample_ddpm(Latent x, const SamplerRun& run) {
  for (size_t i = 0; i < run.schedule.steps(); ++i) {
    const NoiseLevel &from = run.schedule.levels[i], &to = run.schedule.targets[i];
    const Latent picture = run.model.picture(x, from);
    const double scale = from.alpha() / to.alpha(), beta = 1 - scale * scale;  // of this step
    const double variance = from.sigma() * from.sigma(), left = to.sigma() * to.sigma();
    x = weighted_sum({{to.alpha() * beta / variance, picture}, {scale * left / variance, x}});  // equation 7
    if (from.timestep > 0) {
      const Latent noise = run.noise.normal(x.size());
      x = weighted_sum({{1, x}, {std::sqrt(left / variance * beta), noise}});
    }
    finish_step(x, i, run, StateForm::kVariance);
  }
  return x;
}

Latent sample_tcd(Latent x, const SamplerRun& run) {
  const Schedule& s = run.schedule;
  const double eta = run.options.eta.value_or(0);
  for (size_t i = 0; i < s.steps(); ++i) {
    const double next = i + 1 < s.steps() ? s.levels[i + 1].timestep : 0;
    const double middle = std::floor((1 - eta) * next);
    const NoiseLevel& from = s.levels[i];
    const NoiseLevel to{.ratio = s.table->sigma_at(next), .timestep = next};
    const NoiseLevel between{.ratio = s.table->sigma_at(middle), .timestep = middle};
    const Latent output = run.model.call(x, from.timestep);
    const Latent picture = run.model.picture_of(x, output, from), noise = run.model.noise_of(x, output, from);
    x = weighted_sum({{between.alpha(), picture}, {between.sigma(), noise}});
    if (eta != 0 && i + 1 < s.steps()) {
      const Latent drawn = run.noise.normal(x.size());
      const double scale = to.alpha() / between.alpha();
      x = weighted_sum({{scale, x}, {std::sqrt(1 - scale * scale), drawn}});
    }
    finish_step(x, i, run, StateForm::kVariance);
  }
  return x;
}

}  // namespace gabbro::pictures
