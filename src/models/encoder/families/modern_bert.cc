// ModernBERT: norms before the blocks, a gated feed-forward block, and layers that see near tokens alone between those
// that see all, each kind with its own rotary base.
#include "src/models/encoder/registry.h"

namespace gabbro::encoder {
namespace {

constexpr std::string_view kArchitectures[] = {"modern-bert", "modernbert"};

constexpr WeightName kNames[] = {
    {"token_embd", "embeddings.tok_embeddings"},
    {"token_embd_norm", "embeddings.norm"},
    {"output_norm", "final_norm"},
    {"blk.{}.attn_norm", "layers.{}.attn_norm"},
    {"blk.{}.attn_qkv", "layers.{}.attn.Wqkv"},
    {"blk.{}.attn_output", "layers.{}.attn.Wo"},
    {"blk.{}.ffn_norm", "layers.{}.mlp_norm"},
    {"blk.{}.ffn_up", "layers.{}.mlp.Wi"},
    {"blk.{}.ffn_down", "layers.{}.mlp.Wo"},
    {"cls", "head.dense"},
    {"cls.norm", "head.norm"},
    {"cls.output", "classifier"},
};

ModelRope rope_with_base(const EncoderConfig& config, float base) {
  ModelRope rope;
  rope.dimensions = config.shape.head_dimension;
  rope.interleaved = false;
  rope.base = base;
  return rope;
}

float base_of(const ConfigReader& fields, FieldName newer, FieldName older, float other) {
  return fields.number_or(fields.has(newer) ? newer : older, other, 1.0f, 1e12f);
}

// Layers that see all tokens: every `every`-th, from the first on; or as layer_types says.
void read_windows(const ConfigReader& fields, EncoderConfig& config) {
  constexpr FieldName kWindow{"attention.sliding_window", "local_attention"}, kTypes{nullptr, "layer_types"};
  constexpr FieldName kEvery{"attention.sliding_window_pattern", "global_attn_every_n_layers"};
  const int64_t window = fields.size_or(kWindow, 128, 1, 1 << 24) / 2;
  const std::vector<std::string> types = fields.texts(kTypes);
  const std::vector<int64_t> pattern = fields.sizes(kEvery);
  const auto layers = config.layers.size();
  if (!types.empty() && types.size() != layers) fields.refuse(kTypes, "has another number of layers than the model");
  const bool of_layers = pattern.size() == layers && layers > 1;
  const int64_t every = of_layers ? 1 : fields.size_or(kEvery, 3, 1, 1 << 12);
  for (size_t i = 0; i < layers; ++i) {
    bool local = of_layers ? pattern[i] != 0 : i % static_cast<size_t>(every) != 0;
    if (!types.empty()) local = types[i] == "sliding_attention";
    config.layers[i] = {.window = local ? window : 0, .local_rope = local};
  }
}

EncoderConfig read_modern_bert(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  EncoderConfig config = read_encoder_config(fields, kNames);
  config.norm_epsilon =
      fields.number_or({"attention.layer_norm_epsilon", "norm_eps"}, 1e-5f, 0.0f, 1.0f);  // another default
  config.norm_first = true;
  config.first_layer_norm = false;
  config.final_norm = true;
  config.gated = true;
  config.rotated = true;
  require_pairs(fields, config);
  read_windows(fields, config);
  config.rope = rope_with_base(config, base_of(fields, {nullptr, "rope_parameters.full_attention.rope_theta"},
                                               {"rope.freq_base", "global_rope_theta"}, 160000.0f));
  config.local_rope = rope_with_base(config, base_of(fields, {nullptr, "rope_parameters.sliding_attention.rope_theta"},
                                                     {"rope.freq_base_swa", "local_rope_theta"}, 10000.0f));
  config.head.labels = read_rows(fields, kNames, "cls.output.weight");
  config.head.activation = Activation::kGelu;
  constexpr FieldName kHeadPooling{nullptr, "classifier_pooling"};
  // llama.cpp's classifier of this architecture takes the mean.
  const std::string pooling = fields.text_or(kHeadPooling, fields.is_hugging_face() ? "cls" : "mean");
  if (pooling != "cls" && pooling != "mean") fields.refuse(kHeadPooling, "is '" + pooling + "', expected cls or mean");
  config.head.pooling = pooling == "mean" ? Pooling::kMean : Pooling::kCls;
  return config;
}

}  // namespace

extern const Family kModernBert;
const Family kModernBert{.architectures = kArchitectures, .names = kNames, .read_config = read_modern_bert};

}  // namespace gabbro::encoder
