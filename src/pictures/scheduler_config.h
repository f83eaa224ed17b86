// scheduler/scheduler_config.json: which sampler a pipeline was published with, and its noise.
#pragma once

#include <memory>
#include <string>

#include "src/base/json_node.h"
#include "src/pictures/samplers/sampler.h"
#include "src/pictures/schedules/schedule.h"

namespace gabbro::pictures {

struct SchedulerConfig {
  std::string class_name;            // "PNDMScheduler"
  const Sampler* sampler = nullptr;  // null: the class has no sampler here
  ScheduleOptions schedule;          // of that sampler
  SamplerOptions options;
  NoiseTableOptions noise;
  Prediction prediction = Prediction::kNoise;
};

// The class of the document's _class_name, or that of another sampler with the same fields, as diffusers' from_config
// has it. Fields that are missing have the class's defaults, but as pipelines of Stable Diffusion do, `steps_offset` is
// 1 and samples are not clipped. Throws bad_input that names the file and the field: an unknown class, or options that
// are not built.
SchedulerConfig read_scheduler_config(const JsonNode& config, const Sampler* sampler = nullptr);

// The schedule, and the table that it is made of. Throws bad_input for steps that the model does not have.
Schedule make_schedule(const SchedulerConfig& config, int64_t steps);

}  // namespace gabbro::pictures
