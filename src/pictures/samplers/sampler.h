// Samplers: from noise to a picture's latent, step by step. Pure functions of a schedule, a model and noise, without a
// device. A latent is some ten thousand numbers: a step on the host takes microseconds.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/pictures/noise/noise_source.h"
#include "src/pictures/schedules/schedule.h"

namespace gabbro::pictures {

using Latent = std::vector<float>;

// The prediction that a model makes of its input x = alpha · picture + sigma · noise.
enum class Prediction { kNoise, kVelocity, kSample };  // velocity: alpha · noise - sigma · picture (Salimans, Ho 2022)

struct SamplerModel {
  // The model's output for x at a timestep. Throws kInterrupted where it is canceled.
  std::function<Latent(const Latent& x, double timestep)> call;
  Prediction prediction = Prediction::kNoise;

  // The picture and the noise in x by what the model says of it.
  Latent picture_of(const Latent& x, const Latent& output, const NoiseLevel& level) const;
  Latent noise_of(const Latent& x, const Latent& output, const NoiseLevel& level) const;
  Latent picture(const Latent& x, const NoiseLevel& level) const {
    return picture_of(x, call(x, level.timestep), level);
  }
};

struct SamplerOptions {
  // New noise a step, as a factor: Euler a, DPM++ SDE and 2M SDE have 1 by default, DDIM and
  // TCD 0.
  std::optional<double> eta{};
  // DPM++ 2M: first order in the last step, and second below three.
  bool lower_order_final = true, euler_at_final = false;
  bool heun_type = false;  // DPM++ 2M: the other formula of second order
  // UniPC
  int order = 2;
  bool bh1 = false;
  std::vector<int64_t> disable_corrector{};
  double timestep_scaling = 10;  // LCM
};

struct SamplerRun {
  const Schedule& schedule;
  const SamplerModel& model;
  NoiseSource& noise;
  SamplerOptions options{};
  // Called after each step with the state, which it may change, and the level where the next step begins (no noise
  // after the last one). `ratio_form`: the state is picture + ratio · noise, else alpha · picture + sigma · noise.
  std::function<void(Latent& x, const NoiseLevel& level, bool ratio_form)> after_step{};
};

// Each takes x at the first level (start_scale · noise for a new picture), and returns it at the last target.
Latent sample_euler(Latent x, const SamplerRun& run);
Latent sample_euler_ancestral(Latent x, const SamplerRun& run);
Latent sample_heun(Latent x, const SamplerRun& run);
Latent sample_dpmpp_2m(Latent x, const SamplerRun& run);
Latent sample_dpmpp_2m_sde(Latent x, const SamplerRun& run);
Latent sample_dpmpp_sde(Latent x, const SamplerRun& run);
Latent sample_unipc(Latent x, const SamplerRun& run);
Latent sample_ddim(Latent x, const SamplerRun& run);
Latent sample_pndm(Latent x, const SamplerRun& run);
Latent sample_lcm(Latent x, const SamplerRun& run);
Latent sample_lms(Latent x, const SamplerRun& run);
Latent sample_ddpm(Latent x, const SamplerRun& run);
Latent sample_tcd(Latent x, const SamplerRun& run);

struct Sampler {
  std::string_view name;   // "dpmpp_2m"
  std::string_view title;  // as A1111 writes it: "DPM++ 2M"
  TimestepStyle style;
  int evaluations;  // of the model in a step
  Latent (*run)(Latent x, const SamplerRun& run);
  bool takes_eta = false;  // SamplerOptions::eta
};
std::span<const Sampler> samplers();
// Finds a sampler by either name, in any case, with '-' for '_'. Throws bad_input that lists them.
const Sampler& find_sampler(const std::string& name);

}  // namespace gabbro::pictures
