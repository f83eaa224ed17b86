// A request for pictures, and what comes of it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/images/picture.h"
#include "src/pictures/noise/noise_source.h"
#include "src/pictures/program_rules.h"
#include "src/pictures/prompts/weighted_text.h"
#include "src/pictures/samplers/sampler.h"

namespace gabbro::pictures {

// Whether latents are decoded layer by layer in bands of rows, with less memory (diffusion/banded_decoder.h).
enum class DecodeBands { kAuto, kOff, kOn };  // kAuto: pictures above 512 x 512 of Stable Diffusion's autoencoder

// A step is done: `latent` is the picture that the model sees at present, [C, h, w]; of a batch the first one.
struct PictureStep {
  int64_t step = 0, steps = 0;  // calls of the model so far, and all of them
  const Latent& latent;
  int64_t channels = 4, height = 0, width = 0;
  double timestep = 0;
};

// A file of an adapter (lora/lora_file.h) and how much of it is added; a file given twice counts by the sum.
struct LoraStrength {
  std::string path;
  double strength = 1;
};

struct PictureRequest {
  std::string prompt, negative{};
  int64_t width = 0, height = 0;  // 0: the sides of `init`, else the model's
  int64_t steps = 20;
  double guidance = 7.5;        // at most 1: the negative prompt has no part, and each step is half the work
  double guidance_rescale = 0;  // 0 to 1 (Lin et al. 2024, section 3.4)
  uint64_t seed = 0;
  NoiseKind noise = NoiseKind::kTorch;
  PromptSyntax syntax = PromptSyntax::kA1111;
  int64_t clip_skip = 0;   // last layers of the text encoder that are left out
  std::string sampler{};   // empty: the pipeline's
  std::string schedule{};  // a name of schedule_names(); empty: the sampler's
  std::vector<LoraStrength> loras{};
  std::optional<double> eta{};                    // new noise a step; none: the sampler's
  Program like = Program::kGabbro;                // steps, noise and masks by the rules of this program
  std::shared_ptr<const images::Picture> init{};  // RGB: a picture to redraw; resized to the request's size
  double strength = 0.8;                          // 0: `init` unchanged; 1: from noise alone
  // Gray, of the sides of `init`; 255: redrawn, 0: kept to the bit. Blurred by a Gaussian of this radius in pixels.
  std::shared_ptr<const images::Picture> mask{};
  double mask_blur = 0;
  // One of several pictures that are drawn from a seed, and which of them (BatchNoise).
  int64_t batch = 1, position = 0;
  // Drawn first at the size, then redrawn by this strength from a latent that is `hires` times as large; 1: not.
  double hires = 1, hires_strength = 0.7;
  DecodeBands bands = DecodeBands::kAuto;
  // A latent [C, h, w] of an earlier request, which is only decoded; its sides are the request's.
  std::shared_ptr<const Latent> latent{};
  // Called with the latent before it is decoded, [C, height, width].
  std::function<void(const Latent& latent, int64_t height, int64_t width)> on_latent{};
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(const PictureStep&)> on_step{};
  bool step_latents = true;  // on_step gets latents; else they are empty, and nothing is computed for them
};

struct PictureResult {
  images::Picture picture;
  Latent latent;  // scaled as the denoiser has it; empty: no step was taken
  std::string sampler, schedule;
  int64_t width = 0, height = 0;
  int64_t evaluations = 0;  // calls of the denoiser
  double text_seconds = 0, denoise_seconds = 0, decode_seconds = 0;
  std::vector<std::string> notes;  // a line each: words that were left out, ...
};

}  // namespace gabbro::pictures
