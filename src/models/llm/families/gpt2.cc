// GPT-2: learned positions, layer norms, and matrices that transformers stores transposed.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::gpt2 {
namespace {

constexpr std::string_view kArchitectures[] = {"gpt2"};

// The published files leave "transformer." out.
constexpr WeightName kNames[] = {
    {"token_embd", "transformer.wte"},
    {"token_embd", "wte"},
    {"position_embd", "transformer.wpe"},
    {"position_embd", "wpe"},
    {"output_norm", "transformer.ln_f"},
    {"output_norm", "ln_f"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "transformer.h.{}.ln_1"},
    {"blk.{}.attn_norm", "h.{}.ln_1"},
    {"blk.{}.attn_qkv", "transformer.h.{}.attn.c_attn"},
    {"blk.{}.attn_qkv", "h.{}.attn.c_attn"},
    {"blk.{}.attn_output", "transformer.h.{}.attn.c_proj"},
    {"blk.{}.attn_output", "h.{}.attn.c_proj"},
    {"blk.{}.ffn_norm", "transformer.h.{}.ln_2"},
    {"blk.{}.ffn_norm", "h.{}.ln_2"},
    {"blk.{}.ffn_up", "transformer.h.{}.mlp.c_fc"},
    {"blk.{}.ffn_up", "h.{}.mlp.c_fc"},
    {"blk.{}.ffn_down", "transformer.h.{}.mlp.c_proj"},
    {"blk.{}.ffn_down", "h.{}.mlp.c_proj"},
};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  constexpr FieldName kScaled{nullptr, "scale_attn_weights"}, kByLayer{nullptr, "scale_attn_by_inverse_layer_idx"};
  constexpr FieldName kCross{nullptr, "add_cross_attention"};
  if (!fields.flag_or(kScaled, true)) config.attention_scale = 1;
  if (fields.flag_or(kByLayer, false)) fields.refuse(kByLayer, "is true, which is not supported");
  if (fields.flag_or(kCross, false)) fields.refuse(kCross, "is true, which is not supported");
  config.norm = NormKind::kLayer;
  config.learned_positions = true;
  config.transposed_linears = true;
  config.gated = false;
  config.activation = read_activation(fields, Activation::kGeluTanh);
  for (LayerKind& kind : config.layers) kind.rotated = false;
  return config;
}

}  // namespace

extern const Family kGpt2;
const Family kGpt2 = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::gpt2
