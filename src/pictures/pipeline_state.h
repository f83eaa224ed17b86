// The inside of a Pipeline.
#pragma once

#include "gabbro/plan/compiled.h"
#include "src/backend/device.h"
#include "src/models/diffusion/autoencoder.h"
#include "src/models/diffusion/autoencoder_tiny.h"
#include "src/models/diffusion/unet.h"
#include "src/pictures/lora/adapters.h"
#include "src/pictures/pipeline.h"
#include "src/pictures/prompt_encoder.h"
#include "src/pictures/scheduler_config.h"

namespace gabbro::pictures {

// The numbers that SDXL was trained with for a picture: its size before it was cropped, the crop's corner, its size.
inline constexpr int64_t kSizeNumbers = 6;

struct Pipeline::State {
  PipelineFacts facts;
  std::shared_ptr<Device> device;
  FilesInUse files;
  std::unique_ptr<PromptEncoder> text;
  std::shared_ptr<diffusion::UNet> unet;
  std::shared_ptr<diffusion::Autoencoder> autoencoder;
  bool has_encoder = false;
  bool trims = false;                      // unused memory goes back before each part works
  DecodeBands bands = DecodeBands::kAuto;  // of requests that do not say
  bool overflows = false;  // the autoencoder left the range of its format, and works in f32 from then on
  std::function<std::shared_ptr<diffusion::Autoencoder>()> load_wide_autoencoder;
  std::shared_ptr<diffusion::Autoencoder> loaded_wide;   // in f32; null: not loaded
  std::shared_ptr<diffusion::TinyDecoder> tiny_decoder;  // of previews; null: none
  Json scheduler;
  std::string scheduler_name;
  std::unique_ptr<Adapters> adapters;
  // Tensors that the denoiser makes of the last texts, for the steps of a picture.
  struct PreparedText {
    std::shared_ptr<const std::vector<float>> states;  // null: none yet
    int64_t length = 0;                                // of a text
    Tensor strengths;                                  // of the adapters
    std::vector<int64_t> adapters;
    std::vector<Tensor> tensors;
  } prepared_text;
  // Inputs of the denoiser that depend on the texts and the picture's size only.
  struct AddedFeatures {
    std::vector<float> pooled;
    int64_t height = 0, width = 0;
    Tensor tensor;  // undefined: none yet
  } last_added;
  struct LastGuidance {
    double scale = 0;
    Tensor tensor;  // undefined: none yet
  } last_guidance;
  // The denoiser for a batch, sides and a length of text; the last one.
  std::unique_ptr<Compiled> compiled;
  std::vector<int64_t> compiled_for;

  void load_preview_decoder(const PipelineOptions& options, int64_t latent_channels);
  SchedulerConfig scheduler_for(const PictureRequest& request) const;
  std::string schedule_name(const PictureRequest& request) const;  // empty: the sampler's own
  void note_unused(const PictureRequest& request, std::vector<std::string>& notes) const;
  EncodedPrompts encode(const PictureRequest& request, PictureResult& result) const;
  // Whether the denoiser takes a mask and a picture besides the latent.
  bool inpaints() const { return unet->facts().in_channels > autoencoder->config().latent_channels; }
  // `condition`: further channels of the denoiser's input, or none.
  std::vector<float> denoise(const Latent& x, const Latent& condition, double timestep, const EncodedPrompts& prompts,
                             const PictureRequest& request, int64_t height, int64_t width);
  const Tensor& added_features(const EncodedPrompts& prompts, int64_t height, int64_t width);
  const Tensor& guidance_scale(double scale);
  std::vector<Tensor> step_inputs(const Latent& x, const Latent& condition, double timestep, int64_t batch,
                                  double guidance, int64_t height, int64_t width) const;
  const std::vector<Tensor>& prepare_text(const EncodedPrompts& prompts);
  const diffusion::Autoencoder& wide_autoencoder();  // in f32; loaded at first use
  void note_overflow(const char* part, std::vector<std::string>& notes);
  images::Picture decode(const Latent& latent, int64_t height, int64_t width, const PictureRequest& request,
                         std::vector<std::string>& notes);
  // The encoder's result, [1, 2 C, h, w].
  std::vector<float> encode_moments(const Tensor& picture, const std::atomic<bool>* cancel,
                                    std::vector<std::string>& notes);
};

}  // namespace gabbro::pictures
