#include "tests/pictures/scheduler_copy.h"

#include "tests/pictures/pipeline_copy.h"

namespace gabbro::pictures {

std::span<const SchedulerRow> scheduler_rows() {
  static constexpr SchedulerRow kRows[] = {
      {"pndm", R"("PNDMScheduler", "skip_prk_steps": true, "steps_offset": 1, "set_alpha_to_one": false)"},
      {"ddim", R"("DDIMScheduler", "clip_sample": false, "steps_offset": 1, "set_alpha_to_one": false)"},
      {"euler", R"("EulerDiscreteScheduler", "timestep_spacing": "leading", "steps_offset": 1)"},
      {"euler_trailing", R"("EulerDiscreteScheduler", "timestep_spacing": "trailing")"},
      {"euler_karras", R"("EulerDiscreteScheduler", "use_karras_sigmas": true)"},
      {"euler_a", R"("EulerAncestralDiscreteScheduler")"},
      {"heun", R"("HeunDiscreteScheduler")"},
      {"dpmpp_2m", R"("DPMSolverMultistepScheduler")"},
      {"dpmpp_2m_karras", R"("DPMSolverMultistepScheduler", "use_karras_sigmas": true)"},
      {"dpmpp_2m_sde", R"("DPMSolverMultistepScheduler", "algorithm_type": "sde-dpmsolver++")"},
      {"unipc", R"("UniPCMultistepScheduler")"},
      {"lcm", R"("LCMScheduler")"},
      {"lms", R"("LMSDiscreteScheduler")"},
      {"ddpm", R"("DDPMScheduler")"},
      {"tcd", R"("TCDScheduler")"},
      {"tcd_noise", R"("TCDScheduler")"}};
  return kRows;
}

std::string with_scheduler(const std::string& pipeline, const SchedulerRow& row) {
  constexpr const char* kNoise = R"("beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear")";
  return with_scheduler(pipeline, std::string("{") + kNoise + ", \"_class_name\": " + row.config + "}");
}

}  // namespace gabbro::pictures
