// CLIP's text encoder: tokens see only those before them, and the text's vector is the projected state of its end
// token.
#include "src/models/encoder/registry.h"

namespace gabbro::encoder {
namespace {

constexpr std::string_view kArchitectures[] = {"clip_text_model"};

// Since transformers 5 files have no "text_model." before the names.
constexpr WeightName kNames[] = {
    {"token_embd", "text_model.embeddings.token_embedding"},
    {"position_embd", "text_model.embeddings.position_embedding"},
    {"output_norm", "text_model.final_layer_norm"},
    {"projection", "text_projection"},
    {"blk.{}.attn_norm", "text_model.encoder.layers.{}.layer_norm1"},
    {"blk.{}.attn_qkv", "text_model.encoder.layers.{}.self_attn.qkv_proj"},
    {"blk.{}.attn_q", "text_model.encoder.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "text_model.encoder.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "text_model.encoder.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_output", "text_model.encoder.layers.{}.self_attn.out_proj"},
    {"blk.{}.ffn_norm", "text_model.encoder.layers.{}.layer_norm2"},
    {"blk.{}.ffn_up", "text_model.encoder.layers.{}.mlp.fc1"},
    {"blk.{}.ffn_down", "text_model.encoder.layers.{}.mlp.fc2"},
    {"token_embd", "embeddings.token_embedding"},
    {"position_embd", "embeddings.position_embedding"},
    {"output_norm", "final_layer_norm"},
    {"blk.{}.attn_norm", "encoder.layers.{}.layer_norm1"},
    {"blk.{}.attn_q", "encoder.layers.{}.self_attn.q_proj"},
    {"blk.{}.attn_k", "encoder.layers.{}.self_attn.k_proj"},
    {"blk.{}.attn_v", "encoder.layers.{}.self_attn.v_proj"},
    {"blk.{}.attn_output", "encoder.layers.{}.self_attn.out_proj"},
    {"blk.{}.ffn_norm", "encoder.layers.{}.layer_norm2"},
    {"blk.{}.ffn_up", "encoder.layers.{}.mlp.fc1"},
    {"blk.{}.ffn_down", "encoder.layers.{}.mlp.fc2"},
};

EncoderConfig read_clip_text(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  EncoderConfig config = read_encoder_config(fields, kNames, Activation::kQuickGelu);
  config.norm_epsilon = fields.number_or({nullptr, "layer_norm_eps"}, 1e-5f, 0.0f, 1.0f);
  config.norm_first = true;
  config.final_norm = true;
  config.embedding_norm = false;
  config.causal = true;
  config.learned_positions = true;
  config.projection = read_rows(fields, kNames, "projection.weight");
  config.pooling = Pooling::kLast;
  return config;
}

}  // namespace

extern const Family kClipText;
const Family kClipText{
    .architectures = kArchitectures, .names = kNames, .read_config = read_clip_text, .in_gguf = false};

}  // namespace gabbro::encoder
