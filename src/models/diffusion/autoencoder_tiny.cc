#include "src/models/diffusion/autoencoder_tiny.h"

#include "gabbro/nn/activation.h"
#include "src/base/error.h"
#include "src/models/diffusion/model_fields.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {
namespace {

class DoubledSize : public nn::Layer {
 public:
  Tensor forward(const Tensor& x) override { return upsample_nearest2d(x, 2 * x.shape()[2], 2 * x.shape()[3]); }
};

std::shared_ptr<nn::Conv2d> tiny_conv(const nn::Factory& make, int64_t in, int64_t out, bool bias = true) {
  return std::make_shared<nn::Conv2d>(
      make,
      nn::ConvModuleOptions{.in_channels = in, .out_channels = out, .kernel_size = {3}, .padding = {1}, .bias = bias});
}

}  // namespace

TinyDecoderConfig read_tiny_decoder_config(const JsonNode& config) {
  require_field(config, "act_fn", {"\"relu\""});
  require_field(config, "upsample_fn", {"\"nearest\""});
  require_field(config, "upsampling_scaling_factor", {"2"});
  require_field(config, "out_channels", {"3"});
  TinyDecoderConfig c;
  c.latent_channels = positive_or(config, "latent_channels", 4, kMostChannels);
  const JsonNode widths = config.at("decoder_block_out_channels");
  const size_t count = widths.elements().size();
  if (count < 1 || count > static_cast<size_t>(kMostLevels))
    throw bad_input("{}: has {} levels, expected 1 to {}", widths.path(), count, kMostLevels);
  c.channels = positive_list(config, "decoder_block_out_channels", count, 0, kMostChannels);
  c.blocks = positive_list(config, "num_decoder_blocks", count, 3, kMostLayers);
  return c;
}

TinyBlock::TinyBlock(const nn::Factory& make, int64_t channels) {
  const nn::Factory inside = make.at("conv");
  const auto conv = [&](const char* name) { return tiny_conv(inside.at(name), channels, channels); };
  add_module("conv", conv_,
             std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Layer>>{
                 conv("0"), std::make_shared<nn::ReLU>(), conv("2"), std::make_shared<nn::ReLU>(), conv("4")}));
}

Tensor TinyBlock::forward(const Tensor& x) { return relu((*conv_)(x) + x); }

TinyDecoder::TinyDecoder(const nn::Factory& make, const TinyDecoderConfig& config) : config_(config) {
  const nn::Factory inside = make.at("decoder").at("layers");
  std::vector<std::shared_ptr<nn::Layer>> layers;
  const auto next = [&] { return inside.at(std::to_string(layers.size())); };
  layers.push_back(tiny_conv(next(), config.latent_channels, config.channels.front()));
  layers.push_back(std::make_shared<nn::ReLU>());
  for (size_t i = 0; i < config.channels.size(); ++i) {
    const int64_t channels = config.channels[i];
    const bool last = i + 1 == config.channels.size();
    for (int64_t k = 0; k < config.blocks[i]; ++k) layers.push_back(std::make_shared<TinyBlock>(next(), channels));
    if (!last) layers.push_back(std::make_shared<DoubledSize>());
    layers.push_back(tiny_conv(next(), channels, last ? 3 : channels, last));
  }
  add_module("layers", layers_, std::make_shared<nn::Sequential>(layers));
}

Tensor TinyDecoder::operator()(const Tensor& latent) const {
  constexpr double kRange = 3;  // of latents, which become ± 3 at most
  return (*layers_)(tanh(latent / kRange) * kRange);
}

}  // namespace gabbro::diffusion
