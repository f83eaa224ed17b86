// Phi-3.5-MoE: a mixture of experts whose router compares each choice with the logits near it; LayerNorms with a bias.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::phimoe {
namespace {

constexpr std::string_view kArchitectures[] = {"phimoe"};

constexpr WeightName kOwn[] = {
    {"blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.gate"},
    {"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.router"},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.*.w1"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.*.w3"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.*.w2"},
};
constexpr auto kNames = with_names(kOwn, kMixtureDecoderNames);

// Scaled rotations have a given magnitude, one for short and one for long contexts.
void read_magnitude(const ConfigReader& fields, ModelRope& rope) {
  constexpr FieldName kShort{nullptr, "rope_parameters.short_mscale"}, kLong{nullptr, "rope_parameters.long_mscale"};
  if (!fields.is_hugging_face() || rope.scaling == nn::RopeScaling::kNone) return;
  for (const FieldName name : {kShort, kLong}) {
    if (fields.config_class() != nullptr && !fields.has(name)) fields.refuse(name, "is missing");
  }
  const float magnitude = fields.number_or(kShort, 1.0f, 1e-3f, 1e3f);
  if (fields.number_or(kLong, magnitude, 1e-3f, 1e3f) != magnitude)
    fields.refuse(kLong, "differs from short_mscale, which is not supported");
  rope.attention_factor = magnitude;
}

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kNames);
  config.norm = NormKind::kLayer;
  read_magnitude(fields, config.rope);
  config.activation = read_activation(fields, Activation::kSilu);
  config.mixture.score = RouterScore::kMargin;
  constexpr float kPublishedMargin = 0.01f;  // of files by llama.cpp, which has no such field
  config.mixture.margin = fields.number_or({"expert_margin", "router_jitter_noise"}, kPublishedMargin, 0.0f, 1.0f);
  read_mixture(fields, config);
  constexpr int64_t kChosen = 2;  // of transformers, which does not ask num_experts_per_tok
  if (fields.config_class() != nullptr) config.shape.experts_used = kChosen;
  return config;
}

void write_fields(const Checkpoint& checkpoint, GgufFields& fields) {
  const DecoderConfig config = read_config(checkpoint);
  write_decoder_fields(config, fields);
  fields.number("attention.layer_norm_rms_epsilon", config.norm_epsilon);  // llama.cpp's name for it
}

constexpr Family with_own_fields(Family family) {
  family.write_fields = write_fields;
  return family;
}

}  // namespace

extern const Family kPhiMoe;
const Family kPhiMoe = with_own_fields(decoder_family<read_config>(kArchitectures, kNames));

}  // namespace gabbro::llm::phimoe
