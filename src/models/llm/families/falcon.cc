// Falcon: both blocks in parallel, of one norm (7B, 11B) or of one each (40B, 180B); few heads of keys and values.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

constexpr std::string_view kArchitectures[] = {"falcon"};

// GGUF calls the norm of the feed-forward block attn_norm, and that of attention attn_norm_2 where it is another one.
constexpr WeightName kNames[] = {
    {"token_embd", "transformer.word_embeddings"},
    {"output_norm", "transformer.ln_f"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "transformer.h.{}.input_layernorm"},
    {"blk.{}.attn_norm", "transformer.h.{}.ln_mlp"},
    {"blk.{}.attn_norm_2", "transformer.h.{}.ln_attn"},
    {"blk.{}.attn_qkv", "transformer.h.{}.self_attention.query_key_value"},
    {"blk.{}.attn_output", "transformer.h.{}.self_attention.dense"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.dense_h_to_4h"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.dense_4h_to_h"},
};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  constexpr FieldName kAlibi{nullptr, "alibi"}, kParallel{nullptr, "parallel_attn"};
  if (fields.flag_or(kAlibi, false)) fields.refuse(kAlibi, "is true: attention with linear biases is not supported");
  if (!fields.flag_or(kParallel, true)) fields.refuse(kParallel, "is false, which is not supported");
  DecoderConfig config = read_decoder_config(fields, kNames);
  if (fields.is_hugging_face() && !fields.flag_or({nullptr, "new_decoder_architecture"}, false))
    config.shape.kv_heads = fields.flag_or({nullptr, "multi_query"}, true) ? 1 : config.shape.heads;
  config.norm = NormKind::kLayer;
  config.parallel = true;
  config.shared_norm = !has_weight(kNames, checkpoint, "blk.0.attn_norm_2.weight");
  if (!config.shared_norm) {
    config.attn_norm_name = "attn_norm_2";
    config.ffn_norm_name = "attn_norm";
  }
  config.fused_rows = rows_by_group(config.shape);
  config.gated = false;
  config.activation = read_activation(fields, Activation::kGelu);
  return config;
}

}  // namespace

extern const Family kFalcon;
const Family kFalcon = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm
