// A loaded pipeline of Stable Diffusion: from a text to pictures.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/images/picture.h"
#include "src/pictures/noise/noise_source.h"
#include "src/pictures/prompts/weighted_text.h"
#include "src/pictures/samplers/sampler.h"

namespace gabbro::pictures {

struct PipelineOptions {
  std::string device = "auto";            // as open_device() takes it
  int threads = 0;                        // of a CPU device; 0: one per physical core
  bool check_weights = true;              // refuse values that are not numbers
  std::string preview_decoder{};          // a folder of TAESD; empty: previews are a linear map of latents
  std::vector<std::string> embeddings{};  // files of textual inversion, [NAME=]FILE
  std::function<void(const std::string& part, double done)> progress{};  // while weights are loaded
};

struct PipelineFacts {
  std::string name, class_name;
  std::string device_id, device_name;
  std::string sampler;                // the pipeline's own; empty: its class has none here
  int64_t width = 512, height = 512;  // that the model was trained with
  int64_t size_multiple = 8;          // of a picture's sides
  uint64_t file_bytes = 0;
};

// A step is done: `latent` is the picture that the model sees at present, [C, h, w].
struct PictureStep {
  int64_t step = 0, steps = 0;  // calls of the model so far, and all of them
  const Latent& latent;
  int64_t channels = 4, height = 0, width = 0;
  double timestep = 0;
};

struct PictureRequest {
  std::string prompt, negative{};
  int64_t width = 0, height = 0;  // 0: the model's
  int64_t steps = 20;
  double guidance = 7.5;        // at most 1: the negative prompt has no part, and each step is half the work
  double guidance_rescale = 0;  // 0 to 1 (Lin et al. 2024, section 3.4)
  uint64_t seed = 0;
  NoiseKind noise = NoiseKind::kTorch;
  PromptSyntax syntax = PromptSyntax::kA1111;
  int64_t clip_skip = 0;        // last layers of the text encoder that are left out
  std::string sampler{};        // empty: the pipeline's
  std::string schedule{};       // a name of schedule_names(); empty: the sampler's
  std::optional<double> eta{};  // new noise a step; none: the sampler's
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(const PictureStep&)> on_step{};
};

struct PictureResult {
  images::Picture picture;
  Latent latent;  // scaled as the denoiser has it
  std::string sampler, schedule;
  int64_t width = 0, height = 0;
  int64_t evaluations = 0;  // calls of the denoiser
  double text_seconds = 0, denoise_seconds = 0, decode_seconds = 0;
  std::vector<std::string> notes;  // a line each: words that were left out, ...
};

class Pipeline {
 public:
  // Throws bad_input that names the file and what is wrong there; kNoDevice.
  static std::shared_ptr<Pipeline> load(const std::string& folder, const PipelineOptions& options);
  ~Pipeline();

  const PipelineFacts& facts() const;
  // Throws bad_input that names the option for a request that cannot be; kInterrupted; failed() where numbers overflow.
  // One request at a time.
  PictureResult generate(const PictureRequest& request);
  // A small picture of a step: decoded by TAESD where that was given, else by a linear map.
  images::Picture preview(const PictureStep& step) const;
  // The steps of a request that can be followed, checked before anything is computed. Throws as generate().
  void check(const PictureRequest& request) const;

 private:
  struct State;
  explicit Pipeline(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gabbro::pictures
