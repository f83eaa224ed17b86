// Llama 4 (text): layers that attend within chunks, and every fourth without rotary embeddings to everything; mixtures
// of experts in all or in every other layer, with the weight of an expert on its input.
#include <fmt/format.h>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

constexpr std::string_view kArchitectures[] = {"llama4", "llama4_text"};
constexpr int64_t kLongest = int64_t{1} << 32;

constexpr WeightName kOwn[] = {
    {"blk.{}.ffn_gate", "model.layers.{}.feed_forward.gate_proj"},
    {"blk.{}.ffn_up", "model.layers.{}.feed_forward.up_proj"},
    {"blk.{}.ffn_down", "model.layers.{}.feed_forward.down_proj"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.feed_forward.router"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.feed_forward.experts.gate_up_proj", true},
    {"blk.{}.ffn_up_exps", "model.layers.{}.feed_forward.experts.gate_up_proj", true},
    {"blk.{}.ffn_down_exps", "model.layers.{}.feed_forward.experts.down_proj", true},
    {"blk.{}.ffn_gate_shexp", "model.layers.{}.feed_forward.shared_expert.gate_proj"},
    {"blk.{}.ffn_up_shexp", "model.layers.{}.feed_forward.shared_expert.up_proj"},
    {"blk.{}.ffn_down_shexp", "model.layers.{}.feed_forward.shared_expert.down_proj"},
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

// Layers without rotary embeddings attend to everything, and are for long contexts.
void read_kinds(const ConfigReader& fields, DecoderConfig& config) {
  constexpr FieldName kChunk{"attention.chunk_size", "attention_chunk_size"};
  constexpr FieldName kRotated{"rope.rotated_layers", "no_rope_layers"};  // 1 where a layer has them
  constexpr FieldName kInterval{nullptr, "no_rope_layer_interval"};
  constexpr FieldName kTemperature{nullptr, "attn_temperature_tuning"};
  constexpr FieldName kScale{"attention.temperature_scale", "attn_scale"};
  constexpr FieldName kLength{"attention.temperature_length", "floor_scale"};
  const int64_t chunk = fields.size_or(kChunk, 8192, 0, kLongest);
  const std::vector<int64_t> rotated = fields.sizes(kRotated);
  if (!rotated.empty() && rotated.size() != config.layers.size())
    fields.refuse(kRotated, fmt::format("has {} layers, the model has {}", rotated.size(), config.layers.size()));
  const auto interval = static_cast<size_t>(fields.size_or(kInterval, 4, 1, 4096));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerKind& kind = config.layers[i];
    kind.rotated = rotated.empty() ? (i + 1) % interval != 0 : rotated[i] != 0;
    kind.tempered = !kind.rotated;
    kind.chunk = kind.rotated ? chunk : 0;
  }
  if (!fields.flag_or(kTemperature, true)) return;
  config.temperature = {.scale = fields.number_or(kScale, 0.1f, 0.0f, 100.0f),
                        .length = fields.size_or(kLength, 8192, 1, kLongest),
                        .offset = 1};
}

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kNames);
  config.rope.interleaved = true;
  config.activation = read_activation(fields, Activation::kSilu);
  config.mixture.score = RouterScore::kChosenSigmoid;
  config.mixture.scaled_inputs = config.transposed_experts = true;
  read_mixture(fields, config);
  constexpr FieldName kDenseWidth{nullptr, "intermediate_size_mlp"};  // config.json: intermediate_size is of experts
  config.shape.feed_forward = fields.size_or(kDenseWidth, config.shape.feed_forward, 1, 1 << 22);
  config.layers.assign(static_cast<size_t>(config.shape.layers), LayerKind{});
  read_kinds(fields, config);
  constexpr int64_t kMaverickExperts = 128;  // the model without norms; files by llama.cpp do not say it otherwise
  const bool usual = fields.is_hugging_face() || config.shape.experts != kMaverickExperts;
  config.qk_norm = fields.flag_or({"attention.qk_norm", "use_qk_norm"}, usual) ? QkNorm::kUnweighted : QkNorm::kNone;
  config.qk_norm_last = true;
  return config;
}

void write_fields(const Checkpoint& checkpoint, GgufFields& fields) {
  const DecoderConfig config = read_config(checkpoint);
  write_decoder_fields(config, fields);
  fields.writer.add_bool(fields.architecture + ".attention.qk_norm", config.qk_norm == QkNorm::kUnweighted);
  if (config.temperature.scale == 0) fields.number("attention.temperature_scale", 0);
}

}  // namespace

extern const Family kLlama4;
const Family kLlama4 = {
    .architectures = kArchitectures,
    .names = kNames,
    .read_shape = decoder_family<read_config>(kArchitectures, kNames).read_shape,
    .build = decoder_family<read_config>(kArchitectures, kNames).build,
    .write_fields = write_fields,
};

}  // namespace gabbro::llm
