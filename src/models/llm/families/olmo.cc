// OLMo 2 and 3: norms after each block instead of before, and of all queries and of all keys; windows in 3.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"
#include "src/models/llm/window_ropes.h"

namespace gabbro::llm::olmo {
namespace {

constexpr std::string_view kArchitectures[] = {"olmo2", "olmo3"};

constexpr WeightName kOwn[] = {
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"},
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  config.norm_placement = NormPlacement::kAfter;
  config.qk_norm = QkNorm::kAllHeads;
  config.activation = read_activation(fields, Activation::kSilu);
  config.layers = read_layers(fields, config.shape.layers, {.pattern = 4});
  // Contexts are stretched in layers that see everything alone.
  read_window_ropes(fields, config, static_cast<float>(config.rope.base));
  return config;
}

}  // namespace

extern const Family kOlmo;
const Family kOlmo = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::olmo
