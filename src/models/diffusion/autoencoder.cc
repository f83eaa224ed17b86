#include "src/models/diffusion/autoencoder.h"

#include <stdexcept>

#include "src/models/diffusion/image_layout.h"

namespace gabbro::diffusion {
namespace {

constexpr double kEpsilon = 1e-6;  // of all norms

}  // namespace

AutoencoderMiddle::AutoencoderMiddle(const nn::Factory& make, const AutoencoderConfig& config) {
  const int64_t channels = config.channels.back();
  const ResnetBlockOptions block{
      .in_channels = channels, .out_channels = channels, .groups = config.groups, .eps = kEpsilon};
  if (config.mid_attention) {
    add_module("attentions", attentions, std::make_shared<ModuleList<PixelAttention>>());
    attentions->append(make.at("attentions"), channels, config.groups, kEpsilon);
  }
  add_module("resnets", resnets, std::make_shared<ModuleList<ResnetBlock>>());
  resnets->append(make.at("resnets"), block);
  resnets->append(make.at("resnets"), block);
}

Tensor AutoencoderMiddle::operator()(const Tensor& x) const {
  const Tensor h = (*resnets)[0](x, {});
  return (*resnets)[1](attentions != nullptr ? (*attentions)[0](h) : h, {});
}

AutoencoderStage::AutoencoderStage(const nn::Factory& make, const Options& o) {
  add_module("resnets", resnets, std::make_shared<ModuleList<ResnetBlock>>());
  for (int64_t i = 0; i < o.resnets; ++i) {
    const ResnetBlockOptions block{
        .in_channels = i == 0 ? o.in : o.out, .out_channels = o.out, .groups = o.groups, .eps = kEpsilon};
    resnets->append(make.at("resnets"), block);
  }
  if (o.down) {
    add_module("downsamplers", downsamplers, std::make_shared<ModuleList<Downsample>>());
    downsamplers->append(make.at("downsamplers"), o.out, Downsample::Padding::kAtEnd);
  }
  if (o.up) {
    add_module("upsamplers", upsamplers, std::make_shared<ModuleList<Upsample>>());
    upsamplers->append(make.at("upsamplers"), o.out);
  }
}

Tensor AutoencoderStage::operator()(Tensor x) const {
  for (const auto& block : *resnets) x = (*block)(x, {});
  if (downsamplers != nullptr) x = (*downsamplers)[0](x);
  if (upsamplers != nullptr) {
    const ImageSides size = sides_of(x);
    x = (*upsamplers)[0](x, 2 * size.height, 2 * size.width);
  }
  return x;
}

AutoencoderEncoder::AutoencoderEncoder(const nn::Factory& make, const AutoencoderConfig& config) {
  const std::vector<int64_t>& channels = config.channels;
  add_module("conv_in", conv_in,
             make_conv(make.at("conv_in"), {.in = config.picture_channels, .out = channels.front()}));
  add_module("down_blocks", down_blocks, std::make_shared<ModuleList<AutoencoderStage>>());
  for (size_t i = 0; i < channels.size(); ++i) {
    const AutoencoderStage::Options stage{.in = channels[i > 0 ? i - 1 : 0],
                                          .out = channels[i],
                                          .resnets = config.resnets,
                                          .groups = config.groups,
                                          .down = i + 1 < channels.size()};
    down_blocks->append(make.at("down_blocks"), stage);
  }
  add_module("mid_block", mid_block, std::make_shared<AutoencoderMiddle>(make.at("mid_block"), config));
  add_module("conv_norm_out", conv_norm_out,
             make_group_norm(make.at("conv_norm_out"), config.groups, channels.back(), kEpsilon));
  add_module("conv_out", conv_out,
             make_conv(make.at("conv_out"), {.in = channels.back(), .out = 2 * config.latent_channels}));
}

Tensor AutoencoderEncoder::operator()(Tensor x) const {
  x = (*conv_in)(x);
  for (const auto& stage : *down_blocks) x = (*stage)(x);
  x = (*mid_block)(x);
  return (*conv_out)(conv_norm_out->then_silu(x));
}

AutoencoderDecoder::AutoencoderDecoder(const nn::Factory& make, const AutoencoderConfig& config) {
  const std::vector<int64_t>& channels = config.channels;
  add_module("conv_in", conv_in, make_conv(make.at("conv_in"), {.in = config.latent_channels, .out = channels.back()}));
  add_module("up_blocks", up_blocks, std::make_shared<ModuleList<AutoencoderStage>>());
  for (size_t i = channels.size(); i > 0; --i) {
    const AutoencoderStage::Options stage{.in = channels[i < channels.size() ? i : i - 1],
                                          .out = channels[i - 1],
                                          .resnets = config.resnets + 1,
                                          .groups = config.groups,
                                          .up = i > 1};
    up_blocks->append(make.at("up_blocks"), stage);
  }
  add_module("mid_block", mid_block, std::make_shared<AutoencoderMiddle>(make.at("mid_block"), config));
  add_module("conv_norm_out", conv_norm_out,
             make_group_norm(make.at("conv_norm_out"), config.groups, channels.front(), kEpsilon));
  add_module("conv_out", conv_out,
             make_conv(make.at("conv_out"), {.in = channels.front(), .out = config.picture_channels}));
}

Tensor AutoencoderDecoder::operator()(Tensor x) const {
  x = (*mid_block)((*conv_in)(x));
  for (const auto& stage : *up_blocks) x = (*stage)(x);
  return (*conv_out)(conv_norm_out->then_silu(x));
}

Autoencoder::Autoencoder(const nn::Factory& make, const AutoencoderConfig& config, bool with_encoder)
    : config_(config), dtype_(make.dtype) {
  const auto one_by_one = [&](const char* name, int64_t channels) {
    return make_conv(make.at(name), {.in = channels, .out = channels, .kernel = 1, .padding = 0});
  };
  if (with_encoder) add_module("encoder", encoder_, std::make_shared<AutoencoderEncoder>(make.at("encoder"), config));
  add_module("decoder", decoder_, std::make_shared<AutoencoderDecoder>(make.at("decoder"), config));
  if (with_encoder && config.quant_conv)
    add_module("quant_conv", quant_conv_, one_by_one("quant_conv", 2 * config.latent_channels));
  if (config.post_quant_conv)
    add_module("post_quant_conv", post_quant_conv_, one_by_one("post_quant_conv", config.latent_channels));
}

Tensor Autoencoder::after_quantization(const Tensor& latent) const {
  return post_quant_conv_ != nullptr ? (*post_quant_conv_)(latent) : latent;
}

Tensor Autoencoder::decode(const Tensor& latent) const {
  return planes_of((*decoder_)(after_quantization(image_in(latent, dtype_))));
}

Tensor Autoencoder::encode(const Tensor& picture) const {
  if (encoder_ == nullptr) throw std::logic_error("the encoder was not loaded");
  const Tensor moments = (*encoder_)(image_in(picture, dtype_));
  return contiguous_planes_of(quant_conv_ != nullptr ? (*quant_conv_)(moments) : moments);
}

}  // namespace gabbro::diffusion
