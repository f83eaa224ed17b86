// The noise levels that a picture passes on its way from noise, and the timesteps at which the model is called.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/pictures/schedules/noise_table.h"

namespace gabbro::pictures {

// A state is alpha · picture + sigma · noise, where alpha² + sigma² = 1; `ratio` is sigma / alpha, infinite for noise
// alone.
struct NoiseLevel {
  double ratio = 0;
  double timestep = 0;

  double alpha() const { return std::isinf(ratio) ? 0 : 1 / std::sqrt(1 + ratio * ratio); }
  double sigma() const { return std::isinf(ratio) ? 1 : ratio / std::sqrt(1 + ratio * ratio); }
};

struct Schedule {
  std::vector<NoiseLevel> levels;   // of the steps: where the model is called first
  std::vector<NoiseLevel> targets;  // where each step ends: mostly the level of the next one, and no noise at last
  double start_scale = 1;           // of unit noise that a picture begins as
  std::shared_ptr<const NoiseTable> table;

  size_t steps() const { return levels.size(); }
};

// Timesteps by diffusers' rules for its classes of schedulers.
enum class TimestepStyle {
  kContinuous,  // Euler, Euler a, Heun: points of linspace are not rounded
  kMultistep,   // DPM++, UniPC: of one more point than steps, without the last
  kDiscrete,    // DDIM, PNDM: rounded points; a step ends 1000 / steps earlier
  kConsistency  // LCM: of the steps that the model was distilled with
};
enum class Spacing { kLinspace, kLeading, kTrailing };
// How sigmas are spaced between the largest and the smallest one.
enum class SigmaSpacing {
  kModel,        // the sigmas of the timesteps
  kKarras,       // linear in sigma^(1/7) (Karras et al. 2022)
  kExponential,  // linear in log sigma
  kBeta          // by the quantiles of a beta distribution, 0.6 and 0.6 (Lee et al. 2024)
};

struct ScheduleOptions {
  TimestepStyle style = TimestepStyle::kContinuous;
  Spacing spacing = Spacing::kLinspace;
  SigmaSpacing sigmas = SigmaSpacing::kModel;
  int64_t offset = 0;              // added to timesteps of kLeading
  bool ends_without_noise = true;  // the last target has no noise; else that of the first timestep
  bool rounds_spaced = false;      // kMultistep: timesteps of spaced sigmas are rounded (of kKarras), else cut
  int64_t original_steps = 50;     // of kConsistency
};

// Throws bad_input for steps that the table does not have.
Schedule make_schedule(std::shared_ptr<const NoiseTable> table, const ScheduleOptions& options, int64_t steps);

// Schedules by the names of A1111 and ComfyUI, which begin and end at the largest and the smallest sigma of the table:
// "normal", "simple", "sgm_uniform", "ddim_uniform", "karras", "exponential", "beta", "kl_optimal". Throws bad_input
// that lists them.
Schedule make_named_schedule(std::shared_ptr<const NoiseTable> table, const std::string& name, int64_t steps);
const std::vector<std::string>& schedule_names();

}  // namespace gabbro::pictures
