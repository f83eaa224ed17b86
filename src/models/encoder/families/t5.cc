// T5's encoder (v1.0, v1.1, Flan, UL2): norms without a mean, no biases, scores that are not scaled, learned biases by
// distance of the first layer's table.
#include "src/models/encoder/registry.h"

namespace gabbro::encoder {
namespace {

constexpr std::string_view kArchitectures[] = {"t5encoder", "t5", "mt5"};

constexpr WeightName kNames[] = {
    {"token_embd", "shared"},
    {"token_embd", "encoder.embed_tokens"},
    {"output", "lm_head"},
    {"dec.output_norm", "decoder.final_layer_norm"},
    {"dec.blk.{}.attn_rel_b", "decoder.block.{}.layer.0.SelfAttention.relative_attention_bias"},
    {"dec.blk.{}.attn_norm", "decoder.block.{}.layer.0.layer_norm"},
    {"dec.blk.{}.attn_q", "decoder.block.{}.layer.0.SelfAttention.q"},
    {"dec.blk.{}.attn_k", "decoder.block.{}.layer.0.SelfAttention.k"},
    {"dec.blk.{}.attn_v", "decoder.block.{}.layer.0.SelfAttention.v"},
    {"dec.blk.{}.attn_o", "decoder.block.{}.layer.0.SelfAttention.o"},
    {"dec.blk.{}.cross_attn_norm", "decoder.block.{}.layer.1.layer_norm"},
    {"dec.blk.{}.cross_attn_q", "decoder.block.{}.layer.1.EncDecAttention.q"},
    {"dec.blk.{}.cross_attn_k", "decoder.block.{}.layer.1.EncDecAttention.k"},
    {"dec.blk.{}.cross_attn_v", "decoder.block.{}.layer.1.EncDecAttention.v"},
    {"dec.blk.{}.cross_attn_o", "decoder.block.{}.layer.1.EncDecAttention.o"},
    {"dec.blk.{}.ffn_norm", "decoder.block.{}.layer.2.layer_norm"},
    {"dec.blk.{}.ffn_gate", "decoder.block.{}.layer.2.DenseReluDense.wi_0"},
    {"dec.blk.{}.ffn_up", "decoder.block.{}.layer.2.DenseReluDense.wi"},
    {"dec.blk.{}.ffn_up", "decoder.block.{}.layer.2.DenseReluDense.wi_1"},
    {"dec.blk.{}.ffn_down", "decoder.block.{}.layer.2.DenseReluDense.wo"},
    {"enc.output_norm", "encoder.final_layer_norm"},
    {"enc.blk.{}.attn_rel_b", "encoder.block.{}.layer.0.SelfAttention.relative_attention_bias"},
    {"enc.blk.{}.attn_norm", "encoder.block.{}.layer.0.layer_norm"},
    {"enc.blk.{}.attn_qkv", "encoder.block.{}.layer.0.SelfAttention.qkv"},
    {"enc.blk.{}.attn_q", "encoder.block.{}.layer.0.SelfAttention.q"},
    {"enc.blk.{}.attn_k", "encoder.block.{}.layer.0.SelfAttention.k"},
    {"enc.blk.{}.attn_v", "encoder.block.{}.layer.0.SelfAttention.v"},
    {"enc.blk.{}.attn_o", "encoder.block.{}.layer.0.SelfAttention.o"},
    {"enc.blk.{}.ffn_norm", "encoder.block.{}.layer.1.layer_norm"},
    {"enc.blk.{}.ffn_gate", "encoder.block.{}.layer.1.DenseReluDense.wi_0"},
    {"enc.blk.{}.ffn_up", "encoder.block.{}.layer.1.DenseReluDense.wi"},
    {"enc.blk.{}.ffn_up", "encoder.block.{}.layer.1.DenseReluDense.wi_1"},
    {"enc.blk.{}.ffn_down", "encoder.block.{}.layer.1.DenseReluDense.wo"},
};

EncoderConfig read_t5(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  EncoderConfig config = read_encoder_config(fields, kNames);
  constexpr FieldName kBuckets{"attention.relative_buckets_count", "relative_attention_num_buckets"};
  constexpr FieldName kFarthest{nullptr, "relative_attention_max_distance"};
  constexpr FieldName kEpsilon{"attention.layer_norm_rms_epsilon", "layer_norm_epsilon"};
  constexpr FieldName kFeedForward{nullptr, "feed_forward_proj"};
  config.norm = NormKind::kRms;
  config.norm_epsilon = fields.number_or(kEpsilon, 1e-6f, 0.0f, 1.0f);
  config.norm_first = true;
  config.final_norm = true;
  config.embedding_norm = false;
  config.attention_scale = 1;
  config.bias = DistanceBias::kBuckets;
  config.buckets.count = fields.size_or(kBuckets, 32, 4, 1 << 16);
  config.buckets.farthest = fields.size_or(kFarthest, 128, 4, 1 << 20);
  if (config.buckets.farthest * 2 <= config.buckets.count) fields.refuse(kFarthest, "is less than the exact buckets");
  const std::string kind = fields.text_or(kFeedForward, "relu");
  config.gated = fields.is_hugging_face() ? kind.starts_with("gated-")
                                          : llm::has_weight(kNames, checkpoint, "enc.blk.0.ffn_gate.weight");
  if (fields.is_hugging_face() && kind != "relu" && kind != "gated-gelu")
    fields.refuse(kFeedForward, "is '" + kind + "', expected relu or gated-gelu");
  config.activation = config.usual_activation = config.gated ? Activation::kGeluTanh : Activation::kRelu;
  config.layer_prefix = "enc.blk.";
  config.attn_output_name = "attn_o";
  config.output_norm_name = "enc.output_norm";
  return config;
}

}  // namespace

extern const Family kT5;
const Family kT5{.architectures = kArchitectures, .names = kNames, .read_config = read_t5};

}  // namespace gabbro::encoder
