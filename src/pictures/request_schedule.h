// The steps that a request takes: all of a schedule, or of a picture that is there already only the last ones.
#pragma once

#include "src/pictures/program_rules.h"
#include "src/pictures/scheduler_config.h"

namespace gabbro::pictures {

struct ScheduleRequest {
  int64_t steps = 20;
  std::string schedule{};  // a name of schedule_names(); empty: the scheduler's own
  Program like = Program::kGabbro;
  // Share of a picture that is redrawn, above 0: at 1 the picture counts for nothing, and all steps are taken.
  double strength = 1;
};

// For strength s, diffusers takes the last int(s · steps) steps, ComfyUI all `steps` of the end of a schedule of
// int(steps / s), A1111 the last int(min(s, 0.999) · steps) + 1; Gabbro as diffusers. Throws bad_input for steps that
// the model or the sampler does not have, and for a strength that leaves no step.
Schedule schedule_of(const ScheduleRequest& request, const SchedulerConfig& scheduler);

}  // namespace gabbro::pictures
