// TAESD (madebyollin/taesd): a small decoder of latents, for previews; the names of diffusers' AutoencoderTiny.
#pragma once

#include <memory>
#include <vector>

#include "src/base/json_node.h"
#include "src/models/diffusion/resnet_block.h"

namespace gabbro::diffusion {

struct TinyDecoderConfig {
  int64_t latent_channels = 4;
  std::vector<int64_t> channels{64, 64, 64, 64};  // of the levels, from the coarsest
  std::vector<int64_t> blocks{3, 3, 3, 1};

  int64_t factor() const { return int64_t{1} << (channels.size() - 1); }
};

// Reads the config.json of an AutoencoderTiny. Throws bad_input that names the file and the field.
TinyDecoderConfig read_tiny_decoder_config(const JsonNode& config);

// relu(conv(x) + x), where conv is three convolutions with relu between them.
class TinyBlock : public nn::Layer {
 public:
  TinyBlock(const nn::Factory& make, int64_t channels);
  Tensor forward(const Tensor& x) override;

 private:
  std::shared_ptr<nn::Sequential> conv_;
};

// Latents scaled as the denoiser has them, f32 [B, C, h, w], to pictures [B, 3, h · factor, w · factor] in about 0
// .. 1.
class TinyDecoder : public nn::Module {
 public:
  TinyDecoder(const nn::Factory& make, const TinyDecoderConfig& config);
  Tensor operator()(const Tensor& latent) const;
  const TinyDecoderConfig& config() const { return config_; }

 private:
  TinyDecoderConfig config_;
  std::shared_ptr<nn::Sequential> layers_;
};

}  // namespace gabbro::diffusion
