// The network that predicts noise: one interface for U-Nets and diffusion transformers.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "gabbro/tensor/tensor.h"

namespace gabbro::diffusion {

struct DenoiserFacts {
  int64_t in_channels = 4, out_channels = 4;  // of the latent
  int64_t context_width = 768;                // C of the text states
  int64_t time_features = 320;                // numbers that a timestep becomes
  int64_t guidance_features = 0;              // the same of a guidance that the model was distilled with; 0: none
  int64_t added_features = 0;                 // of a pooled text and the numbers of a picture's size; 0: none
  int64_t added_id_features = 0;              // that each of these numbers becomes
  int64_t sample_size = 64;                   // side of the latent that it was trained with; 0: not known
  int64_t size_multiple = 1;                  // the latent's sides have to be multiples
};

struct DenoiserInput {
  Tensor latent;                              // f32 [B, C, H, W]
  Tensor time;                                // f32 [B, time_features]
  Tensor context;                             // f32 [B, S, context_width]; undefined where `text` is given
  Tensor guidance;                            // f32 [B, guidance_features]; undefined where the model takes none
  Tensor added{};                             // f32 [B, added_features]; likewise
  std::vector<Tensor> text{};                 // of prepare_text(); empty: it is computed
  const std::atomic<bool>* cancel = nullptr;  // of models that compute in parts
};

class Denoiser {
 public:
  virtual ~Denoiser() = default;
  virtual const DenoiserFacts& facts() const = 0;
  // The features of a timestep in 0 .. 999, fractions allowed.
  virtual std::vector<float> time_features(double timestep) const = 0;
  // The added features: a pooled text, then the features of each number.
  virtual std::vector<float> added_features(std::span<const float> pooled, std::span<const int64_t> ids) const = 0;
  // Whether prepare_text() and forward() compute as they go, because weights take turns on the device: then they cannot
  // be compiled.
  virtual bool computes_in_parts() const { return false; }
  // All that depends on the text alone, for the steps of a picture: context f32 [B, S, context_width]. It depends on
  // the adapters too.
  virtual std::vector<Tensor> prepare_text(const Tensor& context) = 0;
  // The prediction, of noise, velocity or the picture, as the model was trained: f32 [B, out_channels, H, W].
  virtual Tensor forward(const DenoiserInput& input) = 0;
};

}  // namespace gabbro::diffusion
