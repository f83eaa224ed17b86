// Pictures from texts: loading a pipeline of Stable Diffusion, and drawing with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gabbro/error.h"

#pragma GCC visibility push(default)
namespace gabbro {

// Programs whose noise a seed repeats: PyTorch's CPU generator, as in diffusers and ComfyUI, or A1111's "NV".
enum class PictureNoise { kTorch, kNv };

// Programs whose weights in prompts are read: none, as in diffusers; A1111's, which multiply; ComfyUI's, which replace.
enum class PromptWeights { kNone, kA1111, kComfyUi };

struct PicturePipelineOptions {
  std::string device = "auto";
  int threads = 0;                        // of a CPU; 0: one per physical core
  std::vector<std::string> embeddings{};  // files of textual inversion: FILE or NAME=FILE
  std::function<void(const std::string& part, double done)> progress{};  // `done`: from 0 to 1
};

struct PicturePipelineFacts {
  std::string name;                   // the folder's
  std::string class_name;             // "StableDiffusionPipeline"
  std::string sampler;                // the pipeline's own; empty: its class has none here
  int64_t width = 512, height = 512;  // pixels of the pictures that the model was trained with
  int64_t size_multiple = 8;          // sides have to be multiples of it
  uint64_t file_bytes = 0;
  std::string device_id, device_name;
};

// A call of the model is done.
struct PictureProgress {
  int64_t step = 0, steps = 0;       // calls so far, and all
  double timestep = 0;               // of the call
  const std::vector<float>& latent;  // [channels, height, width]: the picture that the model sees
  int64_t channels = 4, height = 0, width = 0;
};

// Pixels [height, width, 3], RGB in rows from the top.
struct RgbPicture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels{};
};

struct PictureOptions {
  std::string negative{};
  int64_t width = 0, height = 0;  // pixels; 0: the sides of `init`, else the model's
  int64_t steps = 20;
  double guidance = 7.5;        // at most 1: no negative prompt, and half the work
  double guidance_rescale = 0;  // 0 to 1
  uint64_t seed = 0;
  PictureNoise noise = PictureNoise::kTorch;
  PromptWeights weights = PromptWeights::kNone;
  int64_t clip_skip = 0;        // last layers of the text encoder to leave out
  std::string sampler{};        // "euler", "dpmpp_2m" ...; empty: the pipeline's
  std::string schedule{};       // "karras" ...; empty: the sampler's
  std::optional<double> eta{};  // new noise in each step; none: the sampler's
  // "diffusers", "comfyui", "a1111": the steps and the strength of this program, and how it encodes pictures.
  std::string like{};
  std::shared_ptr<const RgbPicture> init{};  // a picture to redraw; resized to the size
  double strength = 0.8;                     // 0: `init` unchanged; 1: from noise alone
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(const PictureProgress&)> on_step{};
};

struct DrawnPicture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // [height, width, 3], rows from the top
  std::vector<float> latent;    // [channels, height / size_multiple, width / size_multiple]
  std::string sampler;
  std::vector<std::string> notes;  // a line each, for example on words that were left out
  double seconds = 0;
};

// One picture at a time; several threads need a pipeline each.
class PicturePipeline {
 public:
  // `folder`: as diffusers saves it, or as `gabbro convert` writes it. Throws bad_input that names the damaged or
  // unsupported file, kNoDevice, and OutOfMemory.
  static std::shared_ptr<PicturePipeline> load(const std::string& folder, const PicturePipelineOptions& options = {});
  ~PicturePipeline();

  const PicturePipelineFacts& facts() const;
  // Throws bad_input that names an option out of range, kInterrupted after `cancel`, and kFailed if values overflow.
  DrawnPicture draw(const std::string& prompt, const PictureOptions& options = {});

 private:
  struct State;
  explicit PicturePipeline(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gabbro
#pragma GCC visibility pop
