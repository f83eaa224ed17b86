// DistilBERT: BERT without types, under other names.
#include "src/models/encoder/registry.h"

namespace gabbro::encoder {
namespace {

constexpr std::string_view kArchitectures[] = {"bert", "distilbert"};

constexpr WeightName kNames[] = {
    {"token_embd", "embeddings.word_embeddings"},
    {"position_embd", "embeddings.position_embeddings"},
    {"token_embd_norm", "embeddings.LayerNorm"},
    {"blk.{}.attn_q", "transformer.layer.{}.attention.q_lin"},
    {"blk.{}.attn_k", "transformer.layer.{}.attention.k_lin"},
    {"blk.{}.attn_v", "transformer.layer.{}.attention.v_lin"},
    {"blk.{}.attn_qkv", "transformer.layer.{}.attention.qkv_lin"},
    {"blk.{}.attn_output", "transformer.layer.{}.attention.out_lin"},
    {"blk.{}.attn_output_norm", "transformer.layer.{}.sa_layer_norm"},
    {"blk.{}.ffn_up", "transformer.layer.{}.ffn.lin1"},
    {"blk.{}.ffn_down", "transformer.layer.{}.ffn.lin2"},
    {"blk.{}.layer_output_norm", "transformer.layer.{}.output_layer_norm"},
    {"cls", "pre_classifier"},
    {"cls.output", "classifier"},
};

EncoderConfig read_distilbert(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  EncoderConfig config = read_encoder_config(fields, kNames);
  config.learned_positions = true;
  config.head.labels = read_rows(fields, kNames, "cls.output.weight");
  config.head.activation = Activation::kRelu;
  return config;
}

}  // namespace

extern const Family kDistilBert;
const Family kDistilBert{.architectures = kArchitectures, .names = kNames, .read_config = read_distilbert};

}  // namespace gabbro::encoder
