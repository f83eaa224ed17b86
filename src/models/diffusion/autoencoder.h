// The autoencoder between pictures and latents (Rombach et al. 2022), under the names of diffusers' AutoencoderKL.
#pragma once

#include <memory>
#include <vector>

#include "src/base/json_node.h"
#include "src/models/diffusion/attention.h"
#include "src/models/diffusion/module_list.h"
#include "src/models/diffusion/resnet_block.h"

namespace gabbro::diffusion {

struct AutoencoderConfig {
  int64_t picture_channels = 3, latent_channels = 4;
  std::vector<int64_t> channels{128, 256, 512, 512};  // of the levels, from the finest
  int64_t resnets = 2;                                // of a level in the encoder; one more in the decoder
  int64_t groups = 32;
  double scaling = 0.18215, shift = 0;  // the denoiser's latent is (latent - shift) · scaling
  bool quant_conv = true, post_quant_conv = true;
  bool mid_attention = true;

  int64_t factor() const { return int64_t{1} << (channels.size() - 1); }  // pixels of a latent's element, a side
};

// Reads vae/config.json. Throws bad_input that names the file and the field.
AutoencoderConfig read_autoencoder_config(const JsonNode& config);

// Two resnet blocks with attention between them, at the coarsest resolution.
class AutoencoderMiddle : public nn::Module {
 public:
  AutoencoderMiddle(const nn::Factory& make, const AutoencoderConfig& config);
  Tensor operator()(const Tensor& x) const;

  std::shared_ptr<ModuleList<PixelAttention>> attentions;  // null: none
  std::shared_ptr<ModuleList<ResnetBlock>> resnets;
};

// The resnet blocks of one resolution of the encoder or the decoder, and the change to the next one.
class AutoencoderStage : public nn::Module {
 public:
  struct Options {
    int64_t in = 0, out = 0, resnets = 2, groups = 32;
    bool down = false, up = false;
  };
  AutoencoderStage(const nn::Factory& make, const Options& options);
  Tensor operator()(Tensor x) const;

  std::shared_ptr<ModuleList<ResnetBlock>> resnets;
  std::shared_ptr<ModuleList<Downsample>> downsamplers;
  std::shared_ptr<ModuleList<Upsample>> upsamplers;
};

// Pictures f32 [B, 3, H, W] in -1 .. 1 to the moments of latents [B, 2 · latent, H / factor, W / factor].
class AutoencoderEncoder : public nn::Module {
 public:
  AutoencoderEncoder(const nn::Factory& make, const AutoencoderConfig& config);
  Tensor operator()(Tensor x) const;

  std::shared_ptr<AdaptableConv2d> conv_in, conv_out;
  std::shared_ptr<ModuleList<AutoencoderStage>> down_blocks;
  std::shared_ptr<AutoencoderMiddle> mid_block;
  std::shared_ptr<AdaptableGroupNorm> conv_norm_out;
};

class AutoencoderDecoder : public nn::Module {
 public:
  AutoencoderDecoder(const nn::Factory& make, const AutoencoderConfig& config);
  Tensor operator()(Tensor x) const;

  std::shared_ptr<AdaptableConv2d> conv_in, conv_out;
  std::shared_ptr<AutoencoderMiddle> mid_block;
  std::shared_ptr<ModuleList<AutoencoderStage>> up_blocks;
  std::shared_ptr<AdaptableGroupNorm> conv_norm_out;
};

class Autoencoder : public nn::Module {
 public:
  // Without `with_encoder` only what decodes is loaded.
  Autoencoder(const nn::Factory& make, const AutoencoderConfig& config, bool with_encoder = true);
  const AutoencoderConfig& config() const { return config_; }
  DType dtype() const { return dtype_; }

  // Latents as the encoder makes them, f32 [B, C, h, w], to pictures [B, 3, h · factor, w · factor], about -1 .. 1.
  Tensor decode(const Tensor& latent) const;
  // Mean, then logarithm of the variance: [B, 2 C, h, w].
  Tensor encode(const Tensor& picture) const;
  // decode() is decoder()(after_quantization(latent)).
  const AutoencoderDecoder& decoder() const { return *decoder_; }
  Tensor after_quantization(const Tensor& latent) const;

 private:
  AutoencoderConfig config_;
  DType dtype_;  // of activations
  std::shared_ptr<AutoencoderEncoder> encoder_;
  std::shared_ptr<AutoencoderDecoder> decoder_;
  std::shared_ptr<AdaptableConv2d> quant_conv_, post_quant_conv_;
};

}  // namespace gabbro::diffusion
