#include "src/pictures/request_schedule.h"

#include <algorithm>

#include "src/base/error.h"

namespace gabbro::pictures {
namespace {

// The steps of the whole schedule, and how many of its last ones are taken.
struct StepCounts {
  int64_t whole = 0, taken = 0;
};

StepCounts count_steps(const ScheduleRequest& o) {
  StepCounts counts{.whole = o.steps, .taken = o.steps};
  if (o.strength >= 1) return counts;
  const auto steps = static_cast<double>(o.steps);
  if (o.like == Program::kComfyUi) {
    counts.whole = static_cast<int64_t>(steps / o.strength);
  } else if (o.like == Program::kA1111) {
    counts.taken = std::min(o.steps, static_cast<int64_t>(std::min(o.strength, 0.999) * steps) + 1);
  } else {
    counts.taken = static_cast<int64_t>(o.strength * steps);
  }
  if (counts.taken < 1) {
    throw Error(ErrorCode::kBadInput, fmt::format("--strength {} of {} steps is less than a step", o.strength, o.steps),
                fmt::format("--strength {:.2g} is one step", 1 / steps + 0.0005));
  }
  return counts;
}

Schedule whole_schedule(const ScheduleRequest& o, const SchedulerConfig& scheduler, int64_t steps) {
  if (o.schedule.empty()) return make_schedule(scheduler, steps);
  return make_named_schedule(std::make_shared<NoiseTable>(scheduler.noise), o.schedule, steps);
}

// ComfyUI's UniPC takes a schedule of one step more, without the last sigma but one.
bool leaves_out_penultimate(const ScheduleRequest& o, const SchedulerConfig& scheduler) {
  return o.like == Program::kComfyUi && scheduler.sampler->name == "unipc";
}

}  // namespace

Schedule schedule_of(const ScheduleRequest& request, const SchedulerConfig& scheduler) {
  const StepCounts counts = count_steps(request);
  const ProgramRules rules = rules_of(request.like);
  const bool one_less = leaves_out_penultimate(request, scheduler);
  Schedule s = whole_schedule(request, scheduler, counts.whole + (one_less ? 1 : 0));
  if (one_less) {
    s.levels.pop_back();
    s.targets.erase(s.targets.end() - 2);
  }
  if (rules.full_start && !request.schedule.empty()) {
    const double largest = s.table->sigma(s.table->size() - 1), first = s.levels.front().ratio;
    if (first >= largest * (1 - 1e-5)) s.start_scale = 1;
  }
  // Schedules of some names have fewer steps than were asked for.
  const auto left = static_cast<std::ptrdiff_t>(std::max<int64_t>(0, std::ssize(s.levels) - counts.taken));
  if (request.strength < 1 && left > 0) {
    s.levels.erase(s.levels.begin(), s.levels.begin() + left);
    s.targets.erase(s.targets.begin(), s.targets.begin() + left);
  }
  if (rules.whole_timesteps && !request.schedule.empty()) {
    for (auto* const levels : {&s.levels, &s.targets}) {
      for (NoiseLevel& level : *levels) level.timestep = std::nearbyint(level.timestep);
    }
  }
  return s;
}

}  // namespace gabbro::pictures
