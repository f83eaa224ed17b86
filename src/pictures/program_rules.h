// How other programs make a picture of a seed, where they differ: --like.
#pragma once

#include <string>
#include <string_view>

#include "src/pictures/noise/noise_source.h"
#include "src/pictures/prompts/weighted_text.h"

namespace gabbro::pictures {

enum class Program { kGabbro, kDiffusers, kComfyUi, kA1111 };

struct ProgramRules {
  PromptSyntax syntax = PromptSyntax::kA1111;
  NoiseKind noise = NoiseKind::kTorch;
  // An encoded picture: a sample of the encoder's distribution, drawn before the noise, or its mean.
  bool samples_encoder = true;
  // Pictures of a batch continue one stream of noise; else picture i has the noise of seed + i.
  bool one_stream = false;
  // Noise of the steps is that of another generator, of seed + 1: ComfyUI's on a CPU.
  bool separate_step_noise = false;
  // The model is called at whole timesteps, the nearest in log sigma.
  bool whole_timesteps = false;
  // Noise of the largest sigma is all of the first state's variance.
  bool full_start = false;
  // The first state has the unmasked part of a picture too; else states have it from the first step on.
  bool keeps_from_start = false;
};
ProgramRules rules_of(Program program);

// "diffusers", "comfyui", "a1111"; empty: Gabbro's own. Throws bad_input that lists them.
Program find_program(const std::string& name);

// The sampler that the program begins with, and the schedule that it takes for a sampler; empty: the pipeline's.
std::string_view default_sampler(Program program);
std::string_view default_schedule(Program program, std::string_view sampler);

}  // namespace gabbro::pictures
