// Nomic's BERT: rotary positions and a gated feed-forward block, in the layout of Nomic's code and in that of
// transformers.
#include "src/models/encoder/registry.h"

namespace gabbro::encoder {
namespace {

constexpr std::string_view kArchitectures[] = {"nomic-bert", "nomic_bert"};

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
    {"blk.{}.ffn_up", "layers.{}.mlp.up_proj"},
    {"blk.{}.ffn_down", "encoder.layers.{}.mlp.fc2"},
    {"blk.{}.ffn_down", "layers.{}.mlp.down_proj"},
    {"blk.{}.layer_output_norm", "encoder.layers.{}.norm2"},
    {"blk.{}.layer_output_norm", "layers.{}.post_mlp_layernorm"},
    {"cls.output", "classifier"},
};

void refuse_others(const ConfigReader& fields) {
  constexpr FieldName kFraction{nullptr, "rotary_emb_fraction"}, kNormFirst{nullptr, "prenorm"};
  constexpr FieldName kInterleaved{nullptr, "rotary_emb_interleaved"}, kExperts{nullptr, "moe_every_n_layers"};
  constexpr FieldName kActivation{nullptr, "activation_function"};
  if (fields.number_or(kFraction, 1.0f, 0.0f, 1.0f) != 1.0f) fields.refuse(kFraction, "is not 1");
  if (fields.flag_or(kNormFirst, false)) fields.refuse(kNormFirst, "is true, which is not supported");
  if (fields.flag_or(kInterleaved, false)) fields.refuse(kInterleaved, "is true, which is not supported");
  if (fields.size_or(kExperts, 0, 0, 1 << 12) != 0) fields.refuse(kExperts, "is not 0: mixtures are not supported");
  const std::string activation = fields.text_or(kActivation, "swiglu");
  if (activation != "swiglu") fields.refuse(kActivation, "is '" + activation + "', expected swiglu");
}

EncoderConfig read_nomic_bert(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  refuse_others(fields);
  EncoderConfig config = read_encoder_config(fields, kNames, Activation::kSilu);
  config.token_types = read_rows(fields, kNames, "token_types.weight");
  config.gated = true;
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
