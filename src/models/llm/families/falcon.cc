// Falcon: both blocks in parallel, of one norm (7B, 11B) or of one each (40B, 180B); few heads of keys and values.
// Falcon RW has them in sequence, all heads, and linear biases instead of rotary embeddings.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::falcon {
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
    {"blk.{}.ffn_norm", "transformer.h.{}.post_attention_layernorm"},
    {"blk.{}.attn_qkv", "transformer.h.{}.self_attention.query_key_value"},
    {"blk.{}.attn_output", "transformer.h.{}.self_attention.dense"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.dense_h_to_4h"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.dense_4h_to_h"},
};

struct Norms {
  bool two = false;       // one for each block, which read the same stream
  bool parallel = false;  // one for both blocks, or these two
};

// As config.json says; of GGUF and of files of early versions, which do not say it, by the tensors.
Norms read_norms(const ConfigReader& fields) {
  constexpr FieldName kCount{nullptr, "num_ln_in_parallel_attn"}, kParallel{nullptr, "parallel_attn"};
  constexpr FieldName kNew{nullptr, "new_decoder_architecture"};
  if (fields.config_class() == nullptr) {
    const bool two = has_weight(kNames, fields.checkpoint(), "blk.0.attn_norm_2.weight");
    return {.two = two, .parallel = two || !has_weight(kNames, fields.checkpoint(), "blk.0.ffn_norm.weight")};
  }
  const bool newer = fields.flag_or(kNew, false), parallel = fields.flag_or(kParallel, true);
  if (newer && !parallel) fields.refuse(kParallel, "is false, which new_decoder_architecture does not have");
  const int64_t count = fields.size_or(kCount, newer ? 2 : 1, 1, 2);
  if (!newer && parallel && count == 2) fields.refuse(kCount, "is 2, which is of new_decoder_architecture");
  return {.two = newer && count == 2, .parallel = parallel};
}

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  if (fields.is_hugging_face() && !fields.flag_or({nullptr, "new_decoder_architecture"}, false))
    config.shape.kv_heads = fields.flag_or({nullptr, "multi_query"}, true) ? 1 : config.shape.heads;
  config.norm = NormKind::kLayer;
  const Norms norms = read_norms(fields);
  config.parallel = norms.parallel;
  config.shared_norm = norms.parallel && !norms.two;
  if (norms.two) {
    config.attn_norm_name = "attn_norm_2";
    config.ffn_norm_name = "attn_norm";
  }
  config.alibi = fields.number_or({"attention.max_alibi_bias", nullptr}, 0.0f, 0.0f, 64.0f);
  if (fields.flag_or({nullptr, "alibi"}, false)) config.alibi = 8;
  config.alibi_scaled = true;
  for (LayerKind& kind : config.layers) kind.rotated = config.alibi == 0;
  config.fused_rows = rows_by_group(config.shape);
  config.gated = false;
  config.activation = read_activation(fields, Activation::kGelu);
  return config;
}

}  // namespace

extern const Family kFalcon;
const Family kFalcon = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::falcon
