// Nomic's BERT: rotary positions and a gated feed-forward block, in the layout of Nomic's code and in that of
// transformers; and its second one, whose block has no gate, and in every other layer experts.
#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/models/encoder/registry.h"

namespace gabbro::encoder {
namespace {

constexpr std::string_view kArchitectures[] = {"nomic-bert", "nomic_bert", "nomic-bert-moe"};

constexpr WeightName kNames[] = {
    {"token_embd", "embeddings.word_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "emb_ln"},
    {"token_embd_norm", "embeddings.LayerNorm"},
    {"blk.{}.attn_qkv", "encoder.layers.{}.attn.Wqkv"},
    {"blk.{}.attn_q", "layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_output", "encoder.layers.{}.attn.out_proj"},
    {"blk.{}.attn_output", "layers.{}.self_attn.o_proj"},
    {"blk.{}.attn_output_norm", "encoder.layers.{}.norm1"},
    {"blk.{}.attn_output_norm", "layers.{}.post_attention_layernorm"},
    {"blk.{}.ffn_gate", "encoder.layers.{}.mlp.fc12"},
    {"blk.{}.ffn_gate", "layers.{}.mlp.gate_proj"},
    {"blk.{}.ffn_up", "encoder.layers.{}.mlp.fc11"},
    {"blk.{}.ffn_up", "encoder.layers.{}.mlp.fc1"},
    {"blk.{}.ffn_up", "layers.{}.mlp.up_proj"},
    {"blk.{}.ffn_down", "encoder.layers.{}.mlp.fc2"},
    {"blk.{}.ffn_down", "layers.{}.mlp.down_proj"},
    {"blk.{}.layer_output_norm", "encoder.layers.{}.norm2"},
    {"blk.{}.layer_output_norm", "layers.{}.post_mlp_layernorm"},
    {"blk.{}.ffn_gate_inp", "encoder.layers.{}.mlp.router.layer"},
    {"blk.{}.ffn_up_exps", "encoder.layers.{}.mlp.experts.mlp.w1", true},
    {"blk.{}.ffn_down_exps", "encoder.layers.{}.mlp.experts.mlp.w2", true},
    {"blk.{}.ffn_exps_b", "encoder.layers.{}.mlp.experts.bias", true},
    {"cls.output", "classifier"},
};

constexpr FieldName kEvery{"moe_every_n_layers", "moe_every_n_layers"};

void refuse_others(const ConfigReader& fields) {
  constexpr FieldName kFraction{nullptr, "rotary_emb_fraction"}, kNormFirst{nullptr, "prenorm"};
  constexpr FieldName kInterleaved{nullptr, "rotary_emb_interleaved"};
  if (fields.number_or(kFraction, 1.0f, 0.0f, 1.0f) != 1.0f) fields.refuse(kFraction, "is not 1");
  if (fields.flag_or(kNormFirst, false)) fields.refuse(kNormFirst, "is true, which is not supported");
  if (fields.flag_or(kInterleaved, false)) fields.refuse(kInterleaved, "is true, which is not supported");
}

// A bias of zeros, as GGUF files have it, is none.
bool has_experts_bias(const Checkpoint& checkpoint, const ModelShape& shape) {
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string name = fmt::format("blk.{}.ffn_exps_b.weight", i);
    if (!llm::has_weight(kNames, checkpoint, name)) continue;
    const CheckpointTensor& bias = checkpoint.require_tensor(llm::weight_name(kNames, checkpoint, name));
    if (bias.shape != std::vector<int64_t>{shape.embedding})
      throw bad_input("{}: tensor '{}' is not of {} elements", checkpoint.path(), bias.name, shape.embedding);
    if (std::ranges::any_of(llm::float_values(bias, shape.embedding, {}), [](float x) { return x != 0; })) return true;
  }
  return false;
}

void read_experts(const ConfigReader& fields, EncoderConfig& config) {
  config.experts_every = fields.size(kEvery, 1 << 12);
  config.shape.experts = fields.size({"expert_count", "num_experts|num_local_experts"}, 1 << 16);
  config.shape.experts_used = fields.size({"expert_used_count", "moe_top_k"}, config.shape.experts);
  config.shape.expert_feed_forward = config.shape.feed_forward;
  config.experts_bias = has_experts_bias(fields.checkpoint(), config.shape);
  constexpr FieldName kNormalized{nullptr, "moe_normalize_expert_weights"};
  if (fields.flag_or(kNormalized, false)) fields.refuse(kNormalized, "is true, which is not supported");
  config.architecture = "nomic-bert-moe";
}

EncoderConfig read_nomic_bert(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  refuse_others(fields);
  constexpr FieldName kActivation{nullptr, "activation_function"};
  const bool mixed = fields.size_or(kEvery, 0, 0, 1 << 12) > 0;
  const std::string expected = mixed ? "gelu" : "swiglu", activation = fields.text_or(kActivation, expected.c_str());
  if (activation != expected) fields.refuse(kActivation, "is '" + activation + "', expected " + expected);
  EncoderConfig config = read_encoder_config(fields, kNames, mixed ? Activation::kGelu : Activation::kSilu);
  if (mixed) read_experts(fields, config);
  config.token_types = read_rows(fields, kNames, "token_types.weight");
  config.gated = !mixed;
  config.rotated = true;
  require_pairs(fields, config);
  config.rope.dimensions = config.shape.head_dimension;
  config.rope.interleaved = false;
  config.rope.base = fields.number_or({"rope.freq_base", "rotary_emb_base|rope_parameters.rope_theta|rope_theta"},
                                      1000.0f, 1.0f, 1e12f);
  config.head.labels = read_rows(fields, kNames, "cls.output.weight");
  return config;
}

}  // namespace

extern const Family kNomicBert;
const Family kNomicBert{.architectures = kArchitectures, .names = kNames, .read_config = read_nomic_bert};

}  // namespace gabbro::encoder
