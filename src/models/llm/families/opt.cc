// OPT: learned positions, LayerNorms before each block, ReLU, biases everywhere.
#include <fmt/format.h>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::opt {
namespace {

constexpr std::string_view kArchitectures[] = {"opt"};

constexpr WeightName kNames[] = {
    {"token_embd", "model.decoder.embed_tokens"},
    {"token_embd", "decoder.embed_tokens"},
    {"position_embd", "model.decoder.embed_positions"},
    {"position_embd", "decoder.embed_positions"},
    {"output_norm", "model.decoder.final_layer_norm"},
    {"output_norm", "decoder.final_layer_norm"},
    {"output", "lm_head"},
    {"blk.{}.attn_norm", "model.decoder.layers.{}.self_attn_layer_norm"},
    {"blk.{}.attn_norm", "decoder.layers.{}.self_attn_layer_norm"},
    {"blk.{}.attn_q", "model.decoder.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_q", "decoder.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "model.decoder.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_k", "decoder.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "model.decoder.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_v", "decoder.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_output", "model.decoder.layers.{}.self_attn.out_proj"},
    {"blk.{}.attn_output", "decoder.layers.{}.self_attn.out_proj"},
    {"blk.{}.ffn_norm", "model.decoder.layers.{}.final_layer_norm"},
    {"blk.{}.ffn_norm", "decoder.layers.{}.final_layer_norm"},
    {"blk.{}.ffn_up", "model.decoder.layers.{}.fc1"},
    {"blk.{}.ffn_up", "decoder.layers.{}.fc1"},
    {"blk.{}.ffn_down", "model.decoder.layers.{}.fc2"},
    {"blk.{}.ffn_down", "decoder.layers.{}.fc2"},
};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  constexpr FieldName kBefore{nullptr, "do_layer_norm_before"}, kProjected{nullptr, "word_embed_proj_dim"};
  if (!fields.flag_or(kBefore, true)) fields.refuse(kBefore, "is false, which is not supported");
  constexpr FieldName kBare{nullptr, "_remove_final_layer_norm"}, kWeighted{nullptr, "layer_norm_elementwise_affine"};
  if (fields.flag_or(kBare, false)) fields.refuse(kBare, "is true, which is not supported");
  if (!fields.flag_or(kWeighted, true)) fields.refuse(kWeighted, "is false, which is not supported");
  DecoderConfig config = read_decoder_config(fields, kNames);
  const int64_t c = config.shape.embedding;
  if (const int64_t width = fields.size_or(kProjected, c, 1, 1 << 20); width != c)
    fields.refuse(kProjected, fmt::format("is {}, not hidden_size {}, which is not supported", width, c));
  config.norm = NormKind::kLayer;
  config.norm_epsilon = 1e-5f;  // torch.nn.LayerNorm's: the configuration has no field for it
  config.learned_positions = true;
  config.position_offset = 2;  // transformers' OPTLearnedPositionalEmbedding
  config.gated = false;
  config.activation = read_activation(fields, Activation::kRelu);
  for (LayerKind& kind : config.layers) kind.rotated = false;
  return config;
}

}  // namespace

extern const Family kOpt;
const Family kOpt = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::opt
