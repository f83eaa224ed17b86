// EXAONE 4: norms after each block and of the queries and keys of a head; the larger models have windows, and rotate
// heads in them alone.
#include <algorithm>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

constexpr std::string_view kArchitectures[] = {"exaone4"};

constexpr WeightName kOwn[] = {
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"},
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  config.norm_placement = NormPlacement::kAfter;
  config.qk_norm = QkNorm::kHead;
  config.activation = read_activation(fields, Activation::kSilu);
  config.layers = read_layers(fields, config.shape.layers, 4);
  const bool windows = std::ranges::any_of(config.layers, [](const LayerKind& kind) { return kind.window > 0; });
  for (LayerKind& kind : config.layers) kind.rotated = !windows || kind.window > 0;
  return config;
}

}  // namespace

extern const Family kExaone;
const Family kExaone = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm
