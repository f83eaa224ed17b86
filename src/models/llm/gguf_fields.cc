#include "src/models/llm/gguf_fields.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "src/base/error.h"
#include "src/models/llm/mixture.h"

namespace gabbro::llm {
namespace {

void write_rope(const ModelRope& rope, GgufFields& fields) {
  fields.size("rope.dimension_count", rope.dimensions);
  fields.number("rope.freq_base", rope.base);
  if (rope.scaling == nn::RopeScaling::kLongRope) {
    fields.tables["rope_factors_short.weight"] = rope.divisors;
    fields.tables["rope_factors_long.weight"] = rope.long_divisors;
  } else if (!rope.divisors.empty()) {
    fields.tables["rope_freqs.weight"] = rope.divisors;
  }
  if (rope.scaling == nn::RopeScaling::kNone) return;
  if (rope.scaling ==
      nn::RopeScaling::kDynamic) {  // which llama.cpp does not have: it is right up to the trained length
    fields.writer.add_string(fields.architecture + ".rope.scaling.type", "none");
    fields.number("rope.scaling.dynamic_factor", rope.factor);
    return fields.size("rope.scaling.original_context_length", rope.original_context);
  }
  const char* const names[] = {"none", "linear", "yarn", "longrope"};
  fields.writer.add_string(fields.architecture + ".rope.scaling.type", names[static_cast<size_t>(rope.scaling)]);
  fields.number("rope.scaling.factor", rope.factor);
  fields.size("rope.scaling.original_context_length", rope.original_context);
  if (rope.attention_factor != 1) fields.number("rope.scaling.attn_factor", rope.attention_factor);
  if (rope.scaling == nn::RopeScaling::kYarn) {
    fields.number("rope.scaling.yarn_beta_fast", rope.beta_fast);
    fields.number("rope.scaling.yarn_beta_slow", rope.beta_slow);
    fields.writer.add_bool(fields.architecture + ".rope.scaling.yarn_truncate", rope.whole_pairs);
  }
}

void write_windows(const std::vector<LayerKind>& layers, GgufFields& fields) {
  const auto widest = std::ranges::max_element(layers, {}, &LayerKind::window);
  if (widest == layers.end() || widest->window == 0) return;
  fields.size("attention.sliding_window", widest->window);
  std::vector<bool> sliding;
  for (const LayerKind& layer : layers) sliding.push_back(layer.window > 0);
  if (std::ranges::find(sliding, false) != sliding.end())
    fields.writer.add_bools(fields.architecture + ".attention.sliding_window_pattern", sliding);
}

void write_layers(const DecoderConfig& config, GgufFields& fields) {
  const std::vector<LayerKind>& layers = config.layers;
  write_windows(layers, fields);
  const auto longest = std::ranges::max_element(layers, {}, &LayerKind::chunk);
  if (longest != layers.end() && longest->chunk > 0) fields.size("attention.chunk_size", longest->chunk);
  std::vector<bool> rotated;
  for (const LayerKind& layer : layers) rotated.push_back(layer.rotated);
  const bool differ = std::ranges::adjacent_find(rotated, std::ranges::not_equal_to()) != rotated.end();
  if (differ || config.rotated_layers_given)
    fields.writer.add_bools(fields.architecture + ".rope.rotated_layers", rotated);
  if (config.temperature.scale == 0) return;
  fields.number("attention.temperature_scale", config.temperature.scale);
  fields.size("attention.temperature_length", config.temperature.length);
}

}  // namespace

void write_decoder_fields(const DecoderConfig& config, GgufFields& fields) {
  const ModelShape& s = config.shape;
  fields.size("block_count", s.layers);
  fields.size("context_length", s.context_trained);
  fields.size("embedding_length", s.embedding);
  if (fields.feed_forward_by_layer.empty()) {
    fields.size("feed_forward_length", s.feed_forward);
  } else {
    fields.writer.add_i32s(fields.architecture + ".feed_forward_length", fields.feed_forward_by_layer);
  }
  fields.size("attention.head_count", s.heads);
  if (fields.kv_heads_by_layer.empty()) {
    fields.size("attention.head_count_kv", s.kv_heads);
  } else {
    fields.writer.add_i32s(fields.architecture + ".attention.head_count_kv", fields.kv_heads_by_layer);
  }
  fields.size("attention.key_length", s.head_dimension);
  fields.size("attention.value_length", config.value_length > 0 ? config.value_length : s.head_dimension);
  fields.size("vocab_size", s.vocabulary);
  fields.number(config.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
                config.norm_epsilon);
  if (config.attention_scale != default_attention_scale(s)) fields.number("attention.scale", config.attention_scale);
  if (config.alibi != 0) fields.number("attention.max_alibi_bias", config.alibi);
  if (config.attention_softcap != 0 || config.softcaps_given)
    fields.number("attn_logit_softcapping", config.attention_softcap);
  if (config.logit_softcap != 0 || config.softcaps_given)
    fields.number("final_logit_softcapping", config.logit_softcap);
  if (config.embedding_scale_given) fields.number("embedding_scale", config.embedding_scale);
  if (config.residual_scale != 1) fields.number("residual_scale", config.residual_scale);
  if (const char* name = activation_name(config.activation))
    fields.writer.add_string(fields.architecture + ".hidden_activation", name);
  if (config.logit_scale != 1 || config.logit_scale_given)
    fields.number("logit_scale", config.logits_divided ? 1 / config.logit_scale : config.logit_scale);
  if (!config.shared_norm && config.attn_norm_name == std::string_view("attn_norm"))
    fields.writer.add_bool(fields.architecture + ".use_parallel_residual", config.parallel);
  write_mixture_fields(config, fields);
  write_layers(config, fields);
  write_rope(config.rope, fields);
  if (config.local_rope &&
      (config.local_rope->scaling != nn::RopeScaling::kNone || !config.local_rope->divisors.empty()))
    throw bad_input("field 'rope_parameters.sliding_attention' scales rotations, which GGUF files cannot say");
  if (config.local_rope && config.local_rope->base != config.rope.base)
    fields.number("rope.freq_base_swa", config.local_rope->base);
}

}  // namespace gabbro::llm
