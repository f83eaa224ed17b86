// DDIM (Song et al. 2021), PNDM's linear multistep (Liu et al. 2022) and LCM (Luo et al. 2023).
#include "src/pictures/samplers/weighted_sum.h"

namespace gabbro::pictures {

Latent sample_ddim(Latent x, const SamplerRun& run) {
  const double eta = run.options.eta.value_or(0);
  for (size_t i = 0; i < run.schedule.steps(); ++i) {
    const NoiseLevel &from = run.schedule.levels[i], &to = run.schedule.targets[i];
    const Latent output = run.model.call(x, from.timestep);
    const Latent picture = run.model.picture_of(x, output, from), noise = run.model.noise_of(x, output, from);
    double fresh = 0;  // the deviation of new noise (equation 16)
    if (eta > 0) {
      const double remains = 1 - std::pow(from.alpha() / to.alpha(), 2);
      fresh = eta * to.sigma() / from.sigma() * std::sqrt(remains);
    }
    const double old = std::sqrt(to.sigma() * to.sigma() - fresh * fresh);
    x = weighted_sum({{to.alpha(), picture}, {old, noise}});
    if (eta > 0) {
      const Latent drawn = run.noise.normal(x.size());
      x = weighted_sum({{1, x}, {fresh, drawn}});
    }
    finish_step(x, i, run, StateForm::kVariance);
  }
  return x;
}

namespace {

// The mean of outputs that a step of the multistep method takes, of the last up to four.
Latent multistep_output(const std::vector<Latent>& outputs) {
  const auto at = [&](size_t before) -> const Latent& { return outputs[outputs.size() - 1 - before]; };
  if (outputs.size() == 1) return at(0);
  if (outputs.size() == 2) return weighted_sum({{1.5, at(0)}, {-0.5, at(1)}});
  if (outputs.size() == 3) return weighted_sum({{23.0 / 12, at(0)}, {-16.0 / 12, at(1)}, {5.0 / 12, at(2)}});
  return weighted_sum({{55.0 / 24, at(0)}, {-59.0 / 24, at(1)}, {37.0 / 24, at(2)}, {-9.0 / 24, at(3)}});
}

}  // namespace

// The first step is done twice: the second time with the mean of the slopes at both of its ends.
Latent sample_pndm(Latent x, const SamplerRun& run) {
  const Schedule& s = run.schedule;
  const auto step = [&](const Latent& sample, const Latent& output, size_t i) {
    const NoiseLevel &from = s.levels[i], &to = s.targets[i];
    const Latent picture = run.model.picture_of(sample, output, from), noise = run.model.noise_of(sample, output, from);
    return weighted_sum({{to.alpha(), picture}, {to.sigma(), noise}});
  };
  std::vector<Latent> outputs;
  for (size_t i = 0; i < s.steps(); ++i) {
    outputs.push_back(run.model.call(x, s.levels[i].timestep));
    if (outputs.size() > 4) outputs.erase(outputs.begin());
    const Latent next = step(x, multistep_output(outputs), i);
    if (i == 0 && s.steps() > 1) {
      const Latent second = run.model.call(next, s.levels[1].timestep);
      x = step(x, weighted_sum({{0.5, outputs[0]}, {0.5, second}}), i);
    } else {
      x = next;
    }
    finish_step(x, i, run, StateForm::kVariance);
  }
  return x;
}

Latent sample_lcm(Latent x, const SamplerRun& run) {
  constexpr double kDataDeviation = 0.5;
  const Schedule& s = run.schedule;
  for (size_t i = 0; i < s.steps(); ++i) {
    const Latent picture = run.model.picture(x, s.levels[i]);
    const double t = s.levels[i].timestep * run.options.timestep_scaling;
    const double length = t * t + kDataDeviation * kDataDeviation;
    const double skip = kDataDeviation * kDataDeviation / length, out = t / std::sqrt(length);
    x = weighted_sum({{out, picture}, {skip, x}});
    if (i + 1 < s.steps()) {
      const Latent noise = run.noise.normal(x.size());
      x = weighted_sum({{s.targets[i].alpha(), x}, {s.targets[i].sigma(), noise}});
    }
    finish_step(x, i, run, StateForm::kVariance);
  }
  return x;
}

}  // namespace gabbro::pictures
