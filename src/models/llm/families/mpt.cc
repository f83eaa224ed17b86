// MPT: linear biases instead of positions, and layer norms without biases.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::mpt {
namespace {

constexpr std::string_view kArchitectures[] = {"mpt"};

constexpr WeightName kNames[] = {
    {"token_embd", "transformer.wte"},
    {"output_norm", "transformer.norm_f"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "transformer.blocks.{}.norm_1"},
    {"blk.{}.attn_qkv", "transformer.blocks.{}.attn.Wqkv"},
    {"blk.{}.attn_output", "transformer.blocks.{}.attn.out_proj"},
    {"blk.{}.ffn_norm", "transformer.blocks.{}.norm_2"},
    {"blk.{}.ffn_up", "transformer.blocks.{}.ffn.up_proj"},
    {"blk.{}.ffn_down", "transformer.blocks.{}.ffn.down_proj"},
};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  constexpr FieldName kAlibi{nullptr, "attn_config.alibi"}, kQkNorm{nullptr, "attn_config.qk_ln"};
  constexpr FieldName kKind{nullptr, "attn_config.attn_type"},
      kLargest{"attention.max_alibi_bias", "attn_config.alibi_bias_max"};
  constexpr FieldName kClamp{"attention.clamp_kqv", "attn_config.clip_qkv"}, kFactor{nullptr, "expansion_ratio"};
  if (!fields.flag_or(kAlibi, true)) fields.refuse(kAlibi, "is false: learned positions are not supported");
  if (fields.flag_or(kQkNorm, false)) fields.refuse(kQkNorm, "is true, which is not supported");
  if (fields.number_or(kClamp, 0.0f, 0.0f, 1e6f) != 0) fields.refuse(kClamp, "is not 0, which is not supported");
  if (fields.text_or(kKind, "multihead_attention") != std::string_view("multihead_attention"))
    fields.refuse(kKind, "is not multihead_attention, which is not supported");
  DecoderConfig config = read_decoder_config(fields, kNames);
  if (fields.is_hugging_face()) config.shape.feed_forward = fields.size_or(kFactor, 4, 1, 64) * config.shape.embedding;
  config.norm = NormKind::kLayer;
  constexpr FieldName kScale{nullptr, "attn_config.softmax_scale"};
  const float scale = fields.number_or(kScale, 0.0f, 0.0f, 1e3f);
  if (scale != 0) config.attention_scale = scale;
  config.alibi = fields.number_or(kLargest, 8.0f, 1e-3f, 64.0f);
  config.gated = false;
  config.activation = Activation::kGelu;
  for (LayerKind& kind : config.layers) kind.rotated = false;
  return config;
}

}  // namespace

extern const Family kMpt;
const Family kMpt = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::mpt
