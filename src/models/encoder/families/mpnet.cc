// MPNet: BERT with learned biases by distance, which all layers share.
#include "src/models/encoder/registry.h"

namespace gabbro::encoder {
namespace {

constexpr std::string_view kArchitectures[] = {"mpnet"};

constexpr WeightName kNames[] = {
    {"token_embd", "embeddings.word_embeddings"},
    {"position_embd", "embeddings.position_embeddings"},
    {"token_embd_norm", "embeddings.LayerNorm"},
    {"attn_rel_b", "encoder.relative_attention_bias"},
    {"blk.{}.attn_qkv", "encoder.layer.{}.attention.attn.qkv"},
    {"blk.{}.attn_q", "encoder.layer.{}.attention.attn.q"},
    {"blk.{}.attn_k", "encoder.layer.{}.attention.attn.k"},
    {"blk.{}.attn_v", "encoder.layer.{}.attention.attn.v"},
    {"blk.{}.attn_output", "encoder.layer.{}.attention.attn.o"},
    {"blk.{}.attn_output_norm", "encoder.layer.{}.attention.LayerNorm"},
    {"blk.{}.ffn_up", "encoder.layer.{}.intermediate.dense"},
    {"blk.{}.ffn_down", "encoder.layer.{}.output.dense"},
    {"blk.{}.layer_output_norm", "encoder.layer.{}.output.LayerNorm"},
    {"cls", "classifier.dense"},
    {"cls.output", "classifier.out_proj"},
};

EncoderConfig read_mpnet(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  EncoderConfig config = read_encoder_config(fields, kNames);
  constexpr FieldName kBuckets{nullptr, "relative_attention_num_buckets"}, kContext{nullptr, "max_position_embeddings"};
  config.learned_positions = true;
  config.position_offset = 2;  // transformers' padding index is 1 whatever config.json says
  if (config.position_offset >= config.shape.context_trained) fields.refuse(kContext, "leaves no position to use");
  config.shape.context_trained -= config.position_offset;
  config.separators = 2;
  config.bias = DistanceBias::kBuckets;
  config.bias_in_layer = false;
  config.buckets.count = fields.size_or(kBuckets, 32, 4, 256);
  config.head.labels = read_rows(fields, kNames, "cls.output.weight");
  return config;
}

}  // namespace

extern const Family kMpnet;
const Family kMpnet{.architectures = kArchitectures, .names = kNames, .read_config = read_mpnet, .in_gguf = false};

}  // namespace gabbro::encoder
