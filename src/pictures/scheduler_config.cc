#include "src/pictures/scheduler_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "src/base/error.h"

namespace gabbro::pictures {
namespace {

constexpr int64_t kMostTimesteps = 1 << 20;

// A class of diffusers, with the defaults in which it differs.
struct SchedulerClass {
  const char* name;
  const char* sampler;  // null: not built
  TimestepStyle style;
  Spacing spacing;
  bool ends_without_noise = true;
};
constexpr SchedulerClass kClasses[] = {
    {"DDIMScheduler", "ddim", TimestepStyle::kDiscrete, Spacing::kLeading},
    {"DDPMScheduler", "ddpm", TimestepStyle::kDiscrete, Spacing::kLeading},
    {"PNDMScheduler", "pndm", TimestepStyle::kDiscrete, Spacing::kLeading, false},
    {"LCMScheduler", "lcm", TimestepStyle::kConsistency, Spacing::kLeading},
    {"TCDScheduler", "tcd", TimestepStyle::kConsistency, Spacing::kLeading},
    {"EulerDiscreteScheduler", "euler", TimestepStyle::kContinuous, Spacing::kLinspace},
    {"EulerAncestralDiscreteScheduler", "euler_a", TimestepStyle::kContinuous, Spacing::kLinspace},
    {"HeunDiscreteScheduler", "heun", TimestepStyle::kContinuous, Spacing::kLinspace},
    {"LMSDiscreteScheduler", "lms", TimestepStyle::kContinuous, Spacing::kLinspace},
    {"KDPM2DiscreteScheduler", nullptr, TimestepStyle::kContinuous, Spacing::kLinspace},
    {"KDPM2AncestralDiscreteScheduler", nullptr, TimestepStyle::kContinuous, Spacing::kLinspace},
    {"DPMSolverSDEScheduler", "dpmpp_sde", TimestepStyle::kContinuous, Spacing::kLinspace},
    {"DPMSolverMultistepScheduler", "dpmpp_2m", TimestepStyle::kMultistep, Spacing::kLinspace},
    {"DPMSolverSinglestepScheduler", nullptr, TimestepStyle::kMultistep, Spacing::kLinspace},
    {"UniPCMultistepScheduler", "unipc", TimestepStyle::kMultistep, Spacing::kLinspace},
    {"DEISMultistepScheduler", nullptr, TimestepStyle::kMultistep, Spacing::kLinspace, false},
};

template <class T, size_t N>
T choose(const JsonNode& config, std::string_view field, const std::pair<const char*, T> (&choices)[N], T other) {
  const auto node = config.find(field);
  if (!node) return other;
  for (const auto& [name, value] : choices) {
    if (node->string() == name) return value;
  }
  throw bad_input("{}: '{}' is not supported", node->path(), node->string());
}

double real_or(const JsonNode& config, std::string_view field, double other) {
  const auto node = config.find(field);
  return node ? node->number() : other;
}

void refuse_true(const JsonNode& config, std::string_view field) {
  if (config.boolean_or(field, false)) throw bad_input("{}.{}: is not supported", config.path(), field);
}

NoiseTableOptions read_noise(const JsonNode& config) {
  constexpr std::pair<const char*, BetaSchedule> kSchedules[] = {{"linear", BetaSchedule::kLinear},
                                                                 {"scaled_linear", BetaSchedule::kScaledLinear},
                                                                 {"squaredcos_cap_v2", BetaSchedule::kSquaredCosine}};
  NoiseTableOptions o;
  if (const auto node = config.find("num_train_timesteps")) o.timesteps = node->integer(1, kMostTimesteps);
  o.schedule = choose(config, "beta_schedule", kSchedules, BetaSchedule::kLinear);
  o.beta_start = real_or(config, "beta_start", 0.0001);
  o.beta_end = real_or(config, "beta_end", 0.02);
  for (const double beta : {o.beta_start, o.beta_end}) {
    if (!(beta > 0 && beta < 1)) throw bad_input("{}: a beta of {} is not between 0 and 1", config.path(), beta);
  }
  if (const auto node = config.find("trained_betas")) {
    for (const JsonNode& beta : node->elements()) o.trained_betas.push_back(static_cast<float>(beta.number()));
  }
  o.zero_terminal_snr = config.boolean_or("rescale_betas_zero_snr", false);
  return o;
}

void read_sampler_options(const JsonNode& config, SchedulerConfig& c) {
  SamplerOptions& o = c.options;
  o.lower_order_final = config.boolean_or("lower_order_final", true);
  o.euler_at_final = config.boolean_or("euler_at_final", false);
  o.timestep_scaling = real_or(config, "timestep_scaling", 10);
  if (c.class_name == "DPMSolverMultistepScheduler") {
    const std::string algorithm = config.string_or("algorithm_type", "dpmsolver++");
    if (algorithm == "sde-dpmsolver++") {
      c.sampler = &find_sampler("dpmpp_2m_sde");
    } else if (algorithm != "dpmsolver++") {
      throw bad_input("{}.algorithm_type: '{}' is not supported", config.path(), algorithm);
    }
    constexpr std::pair<const char*, bool> kTypes[] = {
        {"midpoint", false}, {"heun", true}, {"bh1", false}, {"bh2", false}, {"logrho", false}};
    o.heun_type = choose(config, "solver_type", kTypes, false);
    if (const auto order = config.find("solver_order")) order->integer(2, 2);
  }
  if (c.class_name == "UniPCMultistepScheduler") {
    constexpr std::pair<const char*, bool> kTypes[] = {
        {"bh1", true}, {"bh2", false}, {"midpoint", false}, {"heun", false}, {"logrho", false}};
    o.bh1 = choose(config, "solver_type", kTypes, false);
    if (const auto order = config.find("solver_order")) o.order = static_cast<int>(order->integer(1, 3));
    if (!config.boolean_or("predict_x0", true)) throw bad_input("{}.predict_x0: false is not supported", config.path());
    if (const auto list = config.find("disable_corrector")) {
      for (const JsonNode& step : list->elements()) o.disable_corrector.push_back(step.integer(0, kMostTimesteps));
    }
  }
  if (c.class_name == "DDPMScheduler") {
    constexpr std::pair<const char*, bool> kVariances[] = {{"fixed_small", true}};
    choose(config, "variance_type", kVariances, true);
  }
  if (c.class_name == "PNDMScheduler" && !config.boolean_or("skip_prk_steps", false))
    throw bad_input("{}.skip_prk_steps: false is not supported", config.path());
}

const SchedulerClass& class_of(const JsonNode& config, const Sampler* sampler) {
  if (sampler != nullptr) {
    const std::string_view wanted = sampler->name == "dpmpp_2m_sde" ? "dpmpp_2m" : sampler->name;
    return *std::ranges::find_if(
        kClasses, [&](const SchedulerClass& known) { return known.sampler != nullptr && known.sampler == wanted; });
  }
  const std::string& name = config.at("_class_name").string();
  const auto* const found =
      std::ranges::find_if(kClasses, [&](const SchedulerClass& known) { return known.name == name; });
  if (found != std::end(kClasses)) return *found;
  std::vector<std::string_view> names;
  for (const SchedulerClass& known : kClasses) names.emplace_back(known.name);
  throw Error(ErrorCode::kBadInput, fmt::format("{}._class_name: '{}' is not supported", config.path(), name),
              fmt::format("supported: {}", fmt::join(names, ", ")));
}

ScheduleOptions read_schedule(const JsonNode& config, const SchedulerClass& kind) {
  constexpr std::pair<const char*, Spacing> kSpacings[] = {
      {"linspace", Spacing::kLinspace}, {"leading", Spacing::kLeading}, {"trailing", Spacing::kTrailing}};
  ScheduleOptions o{.style = kind.style};
  o.spacing = choose(config, "timestep_spacing", kSpacings, kind.spacing);
  o.offset = 1;
  if (const auto node = config.find("steps_offset")) o.offset = std::max<int64_t>(1, node->integer(0, kMostTimesteps));
  int given = 0;
  const auto take = [&](const char* field, SigmaSpacing spacing) {
    if (!config.boolean_or(field, false)) return;
    o.sigmas = spacing;
    if (++given > 1) throw bad_input("{}.{}: two kinds of sigmas", config.path(), field);
  };
  take("use_karras_sigmas", SigmaSpacing::kKarras);
  take("use_exponential_sigmas", SigmaSpacing::kExponential);
  take("use_beta_sigmas", SigmaSpacing::kBeta);
  o.rounds_spaced = o.sigmas == SigmaSpacing::kKarras;
  constexpr std::pair<const char*, bool> kFinals[] = {{"zero", true}, {"sigma_min", false}};
  o.ends_without_noise = choose(config, "final_sigmas_type", kFinals, kind.ends_without_noise);
  if (kind.style == TimestepStyle::kDiscrete)
    o.ends_without_noise = config.boolean_or("set_alpha_to_one", kind.ends_without_noise);
  if (const auto node = config.find("original_inference_steps")) o.original_steps = node->integer(1, kMostTimesteps);
  return o;
}

}  // namespace

SchedulerConfig read_scheduler_config(const JsonNode& config, const Sampler* sampler) {
  const SchedulerClass& kind = class_of(config, sampler);
  for (const char* field : {"use_lu_lambdas", "use_flow_sigmas", "use_dynamic_shifting", "thresholding"})
    refuse_true(config, field);
  constexpr std::pair<const char*, Prediction> kPredictions[] = {
      {"epsilon", Prediction::kNoise}, {"v_prediction", Prediction::kVelocity}, {"sample", Prediction::kSample}};
  SchedulerConfig c{.class_name = kind.name};
  if (kind.sampler != nullptr) c.sampler = &find_sampler(kind.sampler);
  c.schedule = read_schedule(config, kind);
  c.noise = read_noise(config);
  c.prediction = choose(config, "prediction_type", kPredictions, Prediction::kNoise);
  if (c.noise.zero_terminal_snr && c.prediction == Prediction::kNoise)
    throw bad_input("{}: a model that predicts noise cannot begin with noise alone (rescale_betas_zero_snr)",
                    config.path());
  read_sampler_options(config, c);
  if (sampler != nullptr) c.sampler = sampler;
  return c;
}

Schedule make_schedule(const SchedulerConfig& config, int64_t steps) {
  return make_schedule(std::make_shared<NoiseTable>(config.noise), config.schedule, steps);
}

}  // namespace gabbro::pictures
