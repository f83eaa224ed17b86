// Gemma 1, 2 and 3 (text). Embeddings are scaled by the root of their length; since 2 there are norms after each block
// and windows, in 2 soft caps, in 3 norms of queries and keys and rotary embeddings with another base in windows.
#include <cmath>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"
#include "src/models/llm/window_ropes.h"

namespace gabbro::llm::gemma {
namespace {

constexpr std::string_view kNames1[] = {"gemma"};
constexpr std::string_view kNames2[] = {"gemma2"};
constexpr std::string_view kNames3[] = {"gemma3", "gemma3_text"};

constexpr WeightName kOwn[] = {
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
    {"blk.{}.ffn_norm", "model.layers.{}.pre_feedforward_layernorm"},
    {"blk.{}.post_ffw_norm", "model.layers.{}.post_feedforward_layernorm"},
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

DecoderConfig read_common(const ConfigReader& fields, std::span<const WeightName> names) {
  DecoderConfig config = read_decoder_config(fields, names);
  constexpr FieldName kBothDirections{nullptr, "use_bidirectional_attention"};
  if (fields.flag_or(kBothDirections, false)) fields.refuse(kBothDirections, "is true, which is not supported");
  config.norm_offset = 1;
  config.activation = read_activation(fields, Activation::kGeluTanh);
  // Early files of transformers say "gelu", and meant the approximation all along.
  if (config.activation == Activation::kGelu) config.activation = Activation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<float>(config.shape.embedding));
  return config;
}

DecoderConfig read_gemma1(const Checkpoint& checkpoint) { return read_common(ConfigReader(checkpoint), kDecoderNames); }

// Gemma 2 and 3. Every `pattern`-th layer has no window; `large`: layers of the size that scales attention
// by the width of the stream instead of that of the heads, which GGUF files do not say.
DecoderConfig read_windowed(const ConfigReader& fields, int64_t pattern, int64_t large) {
  DecoderConfig config = read_common(fields, kNames);
  const ModelShape& shape = config.shape;
  config.norm_placement = NormPlacement::kAround;
  config.layers = read_layers(fields, shape.layers, {.pattern = pattern});
  if (fields.has({"attention.scale", nullptr})) return config;
  const int64_t scalar = shape.layers == large ? shape.embedding / shape.heads : shape.head_dimension;
  const float usual = static_cast<float>(scalar);
  config.attention_scale = 1 / std::sqrt(fields.number_or({nullptr, "query_pre_attn_scalar"}, usual, 1.0f, 1e6f));
  return config;
}

DecoderConfig read_gemma2(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_windowed(fields, 2, 46);
  constexpr FieldName kScores{"attn_logit_softcapping", "attn_logit_softcapping"};
  constexpr FieldName kLogits{"final_logit_softcapping", "final_logit_softcapping"};
  const bool null_is_none = fields.config_class() != nullptr;
  config.softcaps_given = true;
  config.attention_softcap = fields.number_or(kScores, null_is_none ? 0.0f : 50.0f, 0.0f, 1e6f);
  config.logit_softcap = fields.number_or(kLogits, null_is_none ? 0.0f : 30.0f, 0.0f, 1e6f);
  return config;
}

DecoderConfig read_gemma3(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_windowed(fields, 6, 62);
  config.qk_norm = QkNorm::kHead;
  config.logit_softcap = fields.number_or({"final_logit_softcapping", "final_logit_softcapping"}, 0.0f, 0.0f, 1e6f);
  read_window_ropes(fields, config, 10000.0f);
  return config;
}

}  // namespace

extern const Family kGemma, kGemma2, kGemma3;
const Family kGemma = decoder_family<read_gemma1>(kNames1, kDecoderNames);
const Family kGemma2 = decoder_family<read_gemma2>(kNames2, kNames);
const Family kGemma3 = decoder_family<read_gemma3>(kNames3, kNames);

}  // namespace gabbro::llm::gemma
