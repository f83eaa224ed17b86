// DPM-Solver++ (Lu et al. 2022): multistep of second order, the same as an SDE, and the single step SDE of k-diffusion.
#include <limits>

#include "src/pictures/samplers/weighted_sum.h"

namespace gabbro::pictures {
namespace {

// ln(from) - ln(to): what a step adds to the logarithm of the signal-to-noise ratio; infinite for the last one.
double log_step(double from, double to) {
  return to > 0 ? std::log(from) - std::log(to) : std::numeric_limits<double>::infinity();
}

// Pictures of this and the step before, and how far a step of second order leans on their difference.
struct MultistepState {
  Latent picture, before;
  double step_before = 0;  // 0: there is none
};

bool is_first_order(const SamplerRun& run, size_t i) {
  const Schedule& s = run.schedule;
  if (i + 1 < s.steps()) return false;
  return run.options.euler_at_final || (run.options.lower_order_final && s.steps() < 15) || s.targets[i].ratio == 0;
}

}  // namespace

Latent sample_dpmpp_2m(Latent x, const SamplerRun& run) {
  const Schedule& s = run.schedule;
  x = to_ratio_form(x, s.levels.front());
  MultistepState state;
  for (size_t i = 0; i < s.steps(); ++i) {
    const double from = s.levels[i].ratio, to = s.targets[i].ratio, h = log_step(from, to);
    state.picture = picture_in(x, s.levels[i], run.model);
    const double taken = -std::expm1(-h);  // 1 - e^-h: the part of the way to the picture
    const bool first = state.step_before == 0 || is_first_order(run, i);
    const double lean = first                   ? 0
                        : run.options.heun_type ? (1 - taken / h) * h / state.step_before
                                                : taken / 2 * h / state.step_before;
    const Latent& before = first ? state.picture : state.before;
    x = weighted_sum({{to / from, x}, {taken + lean, state.picture}, {-lean, before}});
    state.before = std::move(state.picture);
    state.step_before = h;
    finish_step(x, i, run, StateForm::kRatio);
  }
  return from_ratio_form(x, s.targets.back());
}

Latent sample_dpmpp_2m_sde(Latent x, const SamplerRun& run) {
  const Schedule& s = run.schedule;
  const double eta = run.options.eta.value_or(1);
  x = to_ratio_form(x, s.levels.front());
  MultistepState state;
  for (size_t i = 0; i < s.steps(); ++i) {
    const double from = s.levels[i].ratio, to = s.targets[i].ratio, h = log_step(from, to);
    state.picture = picture_in(x, s.levels[i], run.model);
    const double taken = -std::expm1(-(1 + eta) * h), kept = to > 0 ? to / from * std::exp(-eta * h) : 0;
    const bool first = state.step_before == 0 || is_first_order(run, i);
    const double lean = first                   ? 0
                        : run.options.heun_type ? (1 - taken / ((1 + eta) * h)) * h / state.step_before
                                                : taken / 2 * h / state.step_before;
    const Latent& before = first ? state.picture : state.before;
    const Latent noise = run.noise.normal(x.size());
    const double up = to > 0 ? to * std::sqrt(-std::expm1(-2 * eta * h)) : 0;
    x = weighted_sum({{kept, x}, {taken + lean, state.picture}, {-lean, before}, {up, noise}});
    state.before = std::move(state.picture);
    state.step_before = h;
    finish_step(x, i, run, StateForm::kRatio);
  }
  return from_ratio_form(x, s.targets.back());
}

// A step to the middle in log sigma, and one of the whole way with the picture that is seen there. The noise is that of
// the source, not the Brownian tree that k-diffusion draws from.
Latent sample_dpmpp_sde(Latent x, const SamplerRun& run) {
  const Schedule& s = run.schedule;
  const double eta = run.options.eta.value_or(1);
  x = to_ratio_form(x, s.levels.front());
  const auto solve = [&](const Latent& picture, double from, const AncestralStep& step) {
    const Latent noise = run.noise.normal(x.size());
    return weighted_sum({{step.down / from, x}, {1 - step.down / from, picture}, {step.up, noise}});
  };
  for (size_t i = 0; i < s.steps(); ++i) {
    const double from = s.levels[i].ratio, to = s.targets[i].ratio;
    const Latent picture = picture_in(x, s.levels[i], run.model);
    if (to == 0) {
      x = picture;
    } else {
      const double middle = std::sqrt(from * to);
      const NoiseLevel level{.ratio = middle, .timestep = s.table->timestep_of(middle)};
      const Latent half = solve(picture, from, ancestral_step(from, middle, eta));
      x = solve(picture_in(half, level, run.model), from, ancestral_step(from, to, eta));
    }
    finish_step(x, i, run, StateForm::kRatio);
  }
  return from_ratio_form(x, s.targets.back());
}

}  // namespace gabbro::pictures
