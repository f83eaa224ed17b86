// The configuration of Gemma 3n, and its tensors' names.
#pragma once

#include <limits>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::gemma3n {

inline constexpr WeightName kOwn[] = {
    {"per_layer_token_embd", "model.embed_tokens_per_layer"},
    {"per_layer_model_proj", "model.per_layer_model_projection"},
    {"per_layer_proj_norm", "model.per_layer_projection_norm"},
    {"altup_proj", "model.altup_projections.*"},
    {"altup_unembd_proj", "model.altup_unembed_projections.*"},
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm"},
    {"blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"},
    {"blk.{}.altup_router", "model.layers.{}.altup.modality_router"},
    {"blk.{}.altup_router_norm", "model.layers.{}.altup.router_norm"},
    {"blk.{}.altup_predict_coef", "model.layers.{}.altup.prediction_coefs"},
    {"blk.{}.altup_correct_coef", "model.layers.{}.altup.correction_coefs"},
    {"blk.{}.altup_correct_scale", "model.layers.{}.altup.correct_output_scale", true},
    {"blk.{}.laurel_l", "model.layers.{}.laurel.linear_left"},
    {"blk.{}.laurel_r", "model.layers.{}.laurel.linear_right"},
    {"blk.{}.laurel_post_norm", "model.layers.{}.laurel.post_laurel_norm"},
    {"blk.{}.inp_gate", "model.layers.{}.per_layer_input_gate"},
    {"blk.{}.proj", "model.layers.{}.per_layer_projection"},
    {"blk.{}.post_norm", "model.layers.{}.post_per_layer_input_norm"},
};
inline constexpr auto kNames = with_names(kOwn, kDecoderNames);

inline constexpr float kDense = -std::numeric_limits<float>::infinity();

struct Config {
  DecoderConfig decoder;
  int64_t streams = 4;        // N
  int64_t active = 0;         // the one that layers read
  int64_t layer_width = 256;  // P, of a token's embedding for a layer
  int64_t layer_tokens = 0;   // rows of the table of these embeddings
  int64_t laurel_rank = 64;
  std::vector<float>
      cutoffs;  // by layer: gates count from this many standard deviations above their mean on; kDense: all
  std::vector<size_t> sources;  // by layer: the one whose keys and values it attends to
};

// Throws bad_input that names the field or the tensor that is wrong.
Config read_config(const Checkpoint& checkpoint);

}  // namespace gabbro::llm::gemma3n
