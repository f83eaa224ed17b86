// Jina's BERT (jina-embeddings-v2): ALiBi in both directions instead of positions, and a gated feed-forward block.
#include "src/models/encoder/registry.h"

namespace gabbro::encoder {
namespace {

constexpr std::string_view kArchitectures[] = {"jina-bert-v2"};

constexpr WeightName kNames[] = {
    {"token_embd", "embeddings.word_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "embeddings.LayerNorm"},
    {"blk.{}.attn_qkv", "encoder.layer.{}.attention.self.Wqkv"},
    {"blk.{}.attn_q", "encoder.layer.{}.attention.self.query"},
    {"blk.{}.attn_k", "encoder.layer.{}.attention.self.key"},
    {"blk.{}.attn_v", "encoder.layer.{}.attention.self.value"},
    {"blk.{}.attn_q_norm", "encoder.layer.{}.attention.self.layer_norm_q"},
    {"blk.{}.attn_k_norm", "encoder.layer.{}.attention.self.layer_norm_k"},
    {"blk.{}.attn_output", "encoder.layer.{}.attention.output.dense"},
    {"blk.{}.attn_output_norm", "encoder.layer.{}.attention.output.LayerNorm"},
    {"blk.{}.attn_output_norm", "encoder.layer.{}.layer_norm_1"},
    {"blk.{}.ffn_gate", "encoder.layer.{}.mlp.gate_layer"},
    {"blk.{}.ffn_up", "encoder.layer.{}.mlp.gated_layers"},
    {"blk.{}.ffn_down", "encoder.layer.{}.mlp.wo"},
    {"blk.{}.layer_output_norm", "encoder.layer.{}.mlp.layernorm"},
    {"blk.{}.layer_output_norm", "encoder.layer.{}.layer_norm_2"},
    {"cls", "pooler.dense"},
    {"cls.output", "classifier"},
};

EncoderConfig read_jina_bert(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  EncoderConfig config = read_encoder_config(fields, kNames);
  constexpr FieldName kKind{nullptr, "feed_forward_type"};
  const std::string kind = fields.text_or(kKind, "geglu");
  if (kind != "geglu" && kind != "reglu") fields.refuse(kKind, "is '" + kind + "', expected geglu or reglu");
  config.activation = kind == "reglu" ? Activation::kRelu : Activation::kGelu;
  config.gated = true;
  config.bias = DistanceBias::kAlibi;
  config.largest_alibi_exponent = fields.number_or({"attention.max_alibi_bias", nullptr}, 8.0f, 0.0f, 64.0f);
  config.token_types = read_rows(fields, kNames, "token_types.weight");
  if (llm::has_weight(kNames, checkpoint, "blk.0.attn_q_norm.weight")) config.qk_norm = QkNorm::kAllHeads;
  config.head.labels = read_rows(fields, kNames, "cls.output.weight");
  return config;
}

}  // namespace

extern const Family kJinaBert;
const Family kJinaBert{.architectures = kArchitectures, .names = kNames, .read_config = read_jina_bert};

}  // namespace gabbro::encoder
