// StarCoder and SantaCoder (GPTBigCode): a GPT-2 whose queries share one key and one value.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::gpt_bigcode {
namespace {

constexpr std::string_view kArchitectures[] = {"starcoder", "gpt_bigcode"};

constexpr WeightName kNames[] = {
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output_norm", "transformer.ln_f"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "transformer.h.{}.ln_1"},
    {"blk.{}.attn_qkv", "transformer.h.{}.attn.c_attn"},
    {"blk.{}.attn_output", "transformer.h.{}.attn.c_proj"},
    {"blk.{}.ffn_norm", "transformer.h.{}.ln_2"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.c_fc"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.c_proj"},
};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  if (fields.is_hugging_face()) {
    const bool one = fields.flag_or({nullptr, "multi_query"}, true);
    config.shape.kv_heads = one ? 1 : config.shape.heads;
    if (!one) config.fused_rows = rows_by_group(config.shape);
  }
  constexpr FieldName kScaled{nullptr, "scale_attn_weights"}, kCross{nullptr, "add_cross_attention"};
  if (!fields.flag_or(kScaled, true)) config.attention_scale = 1;
  if (fields.flag_or(kCross, false)) fields.refuse(kCross, "is true, which is not supported");
  config.norm = NormKind::kLayer;
  config.learned_positions = true;
  config.gated = false;
  config.activation = read_activation(fields, Activation::kGeluTanh);
  for (LayerKind& kind : config.layers) kind.rotated = false;
  return config;
}

}  // namespace

extern const Family kGptBigCode;
const Family kGptBigCode = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::gpt_bigcode
