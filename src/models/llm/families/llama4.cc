// Llama 4 (text): layers that attend within chunks, and every fourth without rotary embeddings to everything; mixtures
// of experts in all or in every other layer, with the weight of an expert on its input.
#include <fmt/format.h>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::llama4 {
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
  constexpr FieldName kInterval{nullptr, "no_rope_layer_interval"}, kTypes{nullptr, "layer_types"};
  constexpr FieldName kTemperature{nullptr, "attn_temperature_tuning"};
  constexpr FieldName kScale{"attention.temperature_scale", "attn_scale"};
  constexpr FieldName kLength{"attention.temperature_length", "floor_scale"};
  config.rotated_layers_given = true;
  const int64_t usual = fields.config_class() != nullptr ? 0 : 8192;  // null: no chunks
  const int64_t chunk = fields.size_or(kChunk, usual, 0, kLongest);
  const std::vector<int64_t> rotated = fields.list_or_empty(kRotated);
  const bool longer = fields.has(kTypes) && rotated.size() > config.layers.size();  // the first ones count
  if (!rotated.empty() && !longer && rotated.size() != config.layers.size())
    fields.refuse(kRotated, fmt::format("has {} layers, the model has {}", rotated.size(), config.layers.size()));
  const auto interval = static_cast<size_t>(fields.size_or(kInterval, 4, 1, 4096));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerKind& kind = config.layers[i];
    kind.rotated = rotated.empty() ? (i + 1) % interval != 0 : rotated[i] != 0;
    kind.tempered = !kind.rotated;
    kind.chunk = kind.rotated ? chunk : 0;
  }
  const std::vector<std::string> types = fields.texts(kTypes);
  for (size_t i = 0; i < types.size() && i < config.layers.size(); ++i) {
    if (types[i] != "chunked_attention" && types[i] != "full_attention")
      fields.refuse(kTypes, fmt::format("has '{}', expected chunked_attention or full_attention", types[i]));
    if (types[i] == "chunked_attention" && chunk == 0) fields.refuse(kTypes, "has chunks, and the model has no size");
    config.layers[i].chunk = types[i] == "chunked_attention" ? chunk : 0;
  }
  if (!fields.flag_or(kTemperature, true)) return;
  config.temperature = {.scale = fields.number_or(kScale, 0.1f, 0.0f, 100.0f),
                        .length = fields.size_or(kLength, 8192, 1, kLongest),
                        .offset = 1};
}

// Layers that are listed, or every n-th.
void read_mixed_layers(const ConfigReader& fields, DecoderConfig& config) {
  constexpr FieldName kListed{nullptr, "moe_layers"}, kStep{nullptr, "interleave_moe_layer_step"};
  if (fields.config_class() == nullptr || config.shape.experts == 0) return;
  const bool listed = fields.has(kListed);
  const int64_t step = fields.size_or(kStep, 1, 1, 1 << 16);
  for (int64_t i = 0; i < config.shape.layers; ++i) config.mixed_layers.push_back(!listed && (i + 1) % step == 0);
  for (const int64_t layer : fields.list_or_empty(kListed)) {
    if (layer >= 0 && layer < config.shape.layers) config.mixed_layers[static_cast<size_t>(layer)] = true;
  }
}

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kNames);
  config.rope.interleaved = true;
  config.activation = read_activation(fields, Activation::kSilu);
  config.mixture.score = RouterScore::kChosenSigmoid;
  config.mixture.scaled_inputs = config.transposed_experts = true;
  read_mixture(fields, config);
  read_mixed_layers(fields, config);
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
  const auto has_chunk = [](const LayerKind& kind) { return kind.chunk > 0; };
  if (std::ranges::none_of(config.layers, has_chunk)) {
    fields.size("attention.chunk_size", 0);
  } else if (std::ranges::any_of(config.layers,
                                 [&](const LayerKind& kind) { return has_chunk(kind) != kind.rotated; })) {
    ConfigReader(checkpoint).refuse({nullptr, "layer_types"}, "are not chunks where heads rotate, as GGUF has them");
  }
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

}  // namespace gabbro::llm::llama4
