// BLOOM: linear biases instead of positions, layer norms, one of them on the embeddings; each head has its query, key
// and value together.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::bloom {
namespace {

constexpr std::string_view kArchitectures[] = {"bloom"};

// The published files leave "transformer." out.
constexpr WeightName kNames[] = {
    {"token_embd", "transformer.word_embeddings"},
    {"token_embd", "word_embeddings"},
    {"token_embd_norm", "transformer.word_embeddings_layernorm"},
    {"token_embd_norm", "word_embeddings_layernorm"},
    {"output_norm", "transformer.ln_f"},
    {"output_norm", "ln_f"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "transformer.h.{}.input_layernorm"},
    {"blk.{}.attn_norm", "h.{}.input_layernorm"},
    {"blk.{}.attn_qkv", "transformer.h.{}.self_attention.query_key_value"},
    {"blk.{}.attn_qkv", "h.{}.self_attention.query_key_value"},
    {"blk.{}.attn_output", "transformer.h.{}.self_attention.dense"},
    {"blk.{}.attn_output", "h.{}.self_attention.dense"},
    {"blk.{}.ffn_norm", "transformer.h.{}.post_attention_layernorm"},
    {"blk.{}.ffn_norm", "h.{}.post_attention_layernorm"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.dense_h_to_4h"},
    {"blk.{}.ffn_up", "h.{}.mlp.dense_h_to_4h"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.dense_4h_to_h"},
    {"blk.{}.ffn_down", "h.{}.mlp.dense_4h_to_h"},
};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  constexpr FieldName kPostNorm{nullptr, "apply_residual_connection_post_layernorm"};
  if (fields.flag_or(kPostNorm, false)) fields.refuse(kPostNorm, "is true, which is not supported");
  DecoderConfig config = read_decoder_config(fields, kNames);
  config.norm = NormKind::kLayer;
  config.embedding_norm = true;
  config.alibi = 8;
  config.fused_rows = rows_by_group(config.shape);
  config.gated = false;
  config.activation = Activation::kGeluTanh;
  for (LayerKind& kind : config.layers) kind.rotated = false;
  return config;
}

}  // namespace

extern const Family kBloom;
const Family kBloom = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::bloom
