#include "src/pictures/schedules/schedule.h"

#include <algorithm>
#include <limits>

#include "src/base/error.h"
#include "src/pictures/schedules/spaced_sigmas.h"

namespace gabbro::pictures {
namespace {

void require_steps(const NoiseTable& table, int64_t steps) {
  if (steps < 1 || steps > static_cast<int64_t>(table.size()))
    throw bad_input("{} steps: the model has 1 to {} timesteps", steps, table.size());
}

// A table whose last timestep is noise alone has an infinite ratio there, which only DDIM, PNDM and LCM can begin with.
// Others begin with the one of the smallest f16, as diffusers does.
double finite_ratio(double ratio) {
  constexpr double kSmallest = 0x1p-24;
  return std::isinf(ratio) ? std::sqrt((1 - kSmallest) / kSmallest) : ratio;
}

// round() of NumPy: ties go to the even neighbor.
double rounded(double value) { return std::nearbyint(value); }

// Timesteps from the noisiest on.
std::vector<double> spaced_timesteps(const ScheduleOptions& o, int64_t count, int64_t steps) {
  const bool multistep = o.style == TimestepStyle::kMultistep;
  const int64_t points = multistep ? steps + 1 : steps;
  std::vector<double> times;
  switch (o.spacing) {
    case Spacing::kLinspace:
      times = linear_points(0, static_cast<double>(count - 1), points);
      for (double& t : times) t = o.style == TimestepStyle::kContinuous ? static_cast<float>(t) : rounded(t);
      break;
    case Spacing::kLeading:
      for (int64_t i = 0; i < points; ++i) times.push_back(static_cast<double>(i * (count / points) + o.offset));
      break;
    case Spacing::kTrailing: {
      const double ratio = static_cast<double>(count) / static_cast<double>(steps);
      for (int64_t i = 0; i < steps; ++i)
        times.push_back(rounded(static_cast<double>(count) - static_cast<double>(i) * ratio) - 1);
      return times;
    }
  }
  std::ranges::reverse(times);
  times.resize(static_cast<size_t>(steps));  // kMultistep leaves the last one out
  return times;
}

// Every timestep of a step of the distillation; `steps` of them are taken evenly.
std::vector<double> consistency_timesteps(const ScheduleOptions& o, int64_t count, int64_t steps) {
  if (o.original_steps < 1 || o.original_steps > count || steps > o.original_steps)
    throw bad_input("{} steps: the model was distilled with {}", steps, o.original_steps);
  std::vector<double> times;
  for (const double at : linear_points(0, static_cast<double>(o.original_steps), steps + 1)) {
    if (std::ssize(times) == steps) break;
    const auto index = o.original_steps - 1 - static_cast<int64_t>(at);
    times.push_back(static_cast<double>((index + 1) * (count / o.original_steps) - 1));
  }
  return times;
}

double table_ratio(const NoiseTable& table, double t) {
  const size_t index = static_cast<size_t>(std::clamp(t, 0.0, static_cast<double>(table.size() - 1)));
  const double alpha = table.alpha_bar(index);
  return alpha > 0 ? std::sqrt((1 - alpha) / alpha) : std::numeric_limits<double>::infinity();
}

std::vector<double> spaced_sigmas(SigmaSpacing spacing, double largest, double smallest, int64_t steps) {
  if (spacing == SigmaSpacing::kKarras) return karras_sigmas(largest, smallest, steps);
  if (spacing == SigmaSpacing::kExponential) return exponential_sigmas(largest, smallest, steps);
  return beta_sigmas(largest, smallest, steps);
}

// Steps that end where the next one begins, and the last one at `end`.
void join_levels(Schedule& schedule, double end) {
  schedule.targets.assign(schedule.levels.begin() + 1, schedule.levels.end());
  schedule.targets.push_back({.ratio = end});
}

Schedule discrete_schedule(Schedule schedule, const ScheduleOptions& o, int64_t steps) {
  const NoiseTable& table = *schedule.table;
  const auto count = static_cast<int64_t>(table.size());
  const bool consistency = o.style == TimestepStyle::kConsistency;
  for (const double t : consistency ? consistency_timesteps(o, count, steps) : spaced_timesteps(o, count, steps))
    schedule.levels.push_back({.ratio = table_ratio(table, t), .timestep = t});
  if (consistency) {
    join_levels(schedule, 0);
    return schedule;
  }
  for (const NoiseLevel& level : schedule.levels) {
    const double t = level.timestep - static_cast<double>(count / steps);
    const double last = o.ends_without_noise ? 0 : table_ratio(table, 0);
    schedule.targets.push_back({.ratio = t >= 0 ? table_ratio(table, t) : last, .timestep = t});
  }
  return schedule;
}

}  // namespace

Schedule make_schedule(std::shared_ptr<const NoiseTable> table, const ScheduleOptions& o, int64_t steps) {
  require_steps(*table, steps);
  Schedule schedule{.table = table};
  const bool multistep = o.style == TimestepStyle::kMultistep;
  if (!multistep && o.style != TimestepStyle::kContinuous) return discrete_schedule(std::move(schedule), o, steps);
  const size_t last = table->size() - 1;
  std::vector<double> times = spaced_timesteps(o, static_cast<int64_t>(table->size()), steps);
  std::vector<double> sigmas;
  for (const double t : times) sigmas.push_back(finite_ratio(table->sigma_at(t)));
  if (o.sigmas != SigmaSpacing::kModel) {
    // The classes take the ends of the whole table, or of the steps only.
    const double largest = multistep ? finite_ratio(table->sigma(last)) : sigmas.front();
    const double smallest = multistep ? table->sigma(0) : sigmas.back();
    sigmas = spaced_sigmas(o.sigmas, largest, smallest, steps);
    for (size_t i = 0; i < sigmas.size(); ++i) {
      times[i] = table->timestep_of(sigmas[i]);
      if (multistep) times[i] = o.rounds_spaced ? rounded(times[i]) : std::trunc(times[i]);
    }
  }
  for (size_t i = 0; i < sigmas.size(); ++i)
    schedule.levels.push_back({.ratio = static_cast<float>(sigmas[i]), .timestep = times[i]});
  join_levels(schedule, o.ends_without_noise ? 0 : table->sigma(0));
  // Noise of the largest sigma alone, without the picture's part of it; leading timesteps leave room for that.
  const NoiseLevel& first = schedule.levels.front();
  if (!multistep && o.spacing != Spacing::kLeading) schedule.start_scale = first.sigma();
  return schedule;
}

}  // namespace gabbro::pictures
