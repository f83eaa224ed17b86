// OLMo 2 and 3: norms after each block instead of before, and of all queries and of all keys; windows in 3.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
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
  config.layers = read_layers(fields, config.shape.layers, 4);
  // Contexts are stretched in layers that see everything alone.
  if (fields.has({nullptr, "rope_parameters.full_attention.rope_theta"})) {
    config.rope = read_rope(fields, {.head_dimension = config.shape.head_dimension,
                                     .context_trained = config.shape.context_trained,
                                     .section = "full_attention."});
  }
  config.local_rope = {
      nn::RopeConfig{.dimensions = config.rope.dimensions, .interleaved = false, .base = config.rope.base}};
  for (LayerKind& kind : config.layers) kind.local_rope = kind.window > 0;
  return config;
}

}  // namespace

extern const Family kOlmo;
const Family kOlmo = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm
