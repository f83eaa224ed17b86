// EXAONE 4: norms after each block and of the queries and keys of a head; the larger models have windows, and rotate
// heads in them alone.
#include <algorithm>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::exaone {
namespace {

constexpr std::string_view kArchitectures[] = {"exaone4"};

constexpr WeightName kOwn[] = {
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"},
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

constexpr FieldName kWindow{nullptr, "sliding_window"};

bool has_windows(const DecoderConfig& config) {
  return std::ranges::any_of(config.layers, [](const LayerKind& kind) { return kind.window > 0; });
}

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  config.norm_placement = NormPlacement::kAfter;
  config.qk_norm = QkNorm::kHead;
  config.activation = read_activation(fields, Activation::kSilu);
  config.layers = read_layers(fields, config.shape.layers, {.pattern = 4});
  const bool windows = has_windows(config) || fields.has(kWindow);
  for (LayerKind& kind : config.layers) kind.rotated = !windows || kind.window > 0;
  return config;
}

void write_fields(const Checkpoint& checkpoint, GgufFields& fields) {
  const DecoderConfig config = read_config(checkpoint);
  if (!has_windows(config) && !config.layers.front().rotated)
    ConfigReader(checkpoint).refuse(kWindow, "is given, and no layer has one, which GGUF files cannot say");
  write_decoder_fields(config, fields);
}

constexpr Family with_own_fields(Family family) {
  family.write_fields = write_fields;
  return family;
}

}  // namespace

extern const Family kExaone;
const Family kExaone = with_own_fields(decoder_family<read_config>(kArchitectures, kNames));

}  // namespace gabbro::llm::exaone
