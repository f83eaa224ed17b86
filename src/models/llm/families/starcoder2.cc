// StarCoder 2: layer norms, biases, and a feed-forward block without a gate.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::starcoder2 {
namespace {

constexpr std::string_view kArchitectures[] = {"starcoder2"};

constexpr WeightName kOwn[] = {
    {"blk.{}.ffn_up", "model.layers.{}.mlp.c_fc"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.c_proj"},
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  config.norm = NormKind::kLayer;
  config.gated = false;
  config.activation = read_activation(fields, Activation::kGeluTanh);
  return config;
}

}  // namespace

extern const Family kStarCoder2;
const Family kStarCoder2 = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::starcoder2
