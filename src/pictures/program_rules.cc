#include "src/pictures/program_rules.h"

#include "src/base/error.h"

namespace gabbro::pictures {

ProgramRules rules_of(Program program) {
  switch (program) {
    case Program::kDiffusers:
      return {.syntax = PromptSyntax::kPlain, .one_stream = true};
    case Program::kComfyUi:
      return {.syntax = PromptSyntax::kComfyUi,
              .samples_encoder = false,
              .one_stream = true,
              .separate_step_noise = true,
              .whole_timesteps = true,
              .full_start = true,
              .keeps_from_start = true};
    case Program::kA1111:
      // A1111 samples the encoder from a generator that no seed sets: the mean is the nearest.
      return {.noise = NoiseKind::kNv, .samples_encoder = false, .keeps_from_start = true};
    case Program::kGabbro:
      break;
  }
  return {};
}

Program find_program(const std::string& name) {
  if (name.empty()) return Program::kGabbro;
  if (name == "diffusers") return Program::kDiffusers;
  if (name == "comfyui") return Program::kComfyUi;
  if (name == "a1111") return Program::kA1111;
  throw Error(ErrorCode::kBadInput, fmt::format("--like {}: no such program", name),
              "programs: diffusers, comfyui, a1111");
}

std::string_view default_sampler(Program program) {
  if (program == Program::kComfyUi) return "euler";
  if (program == Program::kA1111) return "dpmpp_2m";
  return "";
}

std::string_view default_schedule(Program program, std::string_view sampler) {
  const bool has_schedules =
      sampler != "ddim" && sampler != "pndm" && sampler != "ddpm" && sampler != "lcm" && sampler != "tcd";
  if (!has_schedules || sampler.empty()) return "";
  if (program == Program::kComfyUi) return "normal";
  if (program != Program::kA1111 || sampler == "unipc") return "";
  // A1111's "Automatic".
  if (sampler == "dpmpp_2m" || sampler == "dpmpp_sde") return "karras";
  return sampler == "dpmpp_2m_sde" ? "exponential" : "normal";
}

}  // namespace gabbro::pictures
