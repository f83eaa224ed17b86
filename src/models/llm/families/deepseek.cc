// DeepSeek V2, V2.5, V3 and R1: latent attention, and from the second or fourth layer on a mixture of experts with
// shared ones, chosen in the best groups of them.
#include <cmath>

#include "src/models/config/config_class.h"
#include "src/models/llm/decoder.h"
#include "src/models/llm/mixers/latent_attention.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::deepseek {
namespace {

constexpr std::string_view kArchitectures[] = {"deepseek2", "deepseek_v2", "deepseek_v3"};

constexpr WeightName kOwn[] = {
    {"blk.{}.attn_q_a", "model.layers.{}.self_attn.q_a_proj"},
    {"blk.{}.attn_q_a_norm", "model.layers.{}.self_attn.q_a_layernorm"},
    {"blk.{}.attn_q_b", "model.layers.{}.self_attn.q_b_proj"},
    {"blk.{}.attn_kv_a_mqa", "model.layers.{}.self_attn.kv_a_proj_with_mqa"},
    {"blk.{}.attn_kv_a_norm", "model.layers.{}.self_attn.kv_a_layernorm"},
    {"blk.{}.attn_k_b", "model.layers.{}.self_attn.kv_b_proj"},
    {"blk.{}.attn_v_b", "model.layers.{}.self_attn.kv_b_proj"},
};
constexpr auto kNames = with_names(kOwn, kMixtureDecoderNames);

struct Config {
  DecoderConfig decoder;
  LatentSizes latent;
  float mscale_factor = 0;  // rope.scaling.yarn_log_multiplier: 0.1 · mscale_all_dim
  float magnitude = 1;      // of the rotations
};

// YaRN in DeepSeek's way: the magnitude is that of `mscale` over that of `mscale_all_dim`, and the latter, squared, is
// a factor of the scores.
void read_yarn(const ConfigReader& fields, Config& config) {
  constexpr FieldName kAll{nullptr, "rope_parameters.mscale_all_dim|rope_scaling.mscale_all_dim"};
  constexpr FieldName kOne{nullptr, "rope_parameters.mscale|rope_scaling.mscale"};
  ModelRope& rope = config.decoder.rope;
  if (rope.scaling != nn::RopeScaling::kYarn) return;
  const double log_factor = rope.factor > 1 ? 0.1 * std::log(rope.factor) : 0;
  if (fields.is_hugging_face()) {
    const float all = fields.number_or(kAll, 0.0f, 0.0f, 100.0f), one = fields.number_or(kOne, 0.0f, 0.0f, 100.0f);
    config.mscale_factor = static_cast<float>(0.1 * all);
    const bool given = all != 0 && one != 0;
    config.magnitude = static_cast<float>(given ? (1 + one * log_factor) / (1 + all * log_factor) : 1 + log_factor);
  } else {
    config.mscale_factor = fields.number_or({"rope.scaling.yarn_log_multiplier", nullptr}, 0.0f, 0.0f, 10.0f);
    config.magnitude = fields.number_or({"rope.scaling.attn_factor", nullptr}, 1.0f, 1e-3f, 1e3f);
  }
  rope.attention_factor = config.magnitude / (1 + 0.1 * std::log(rope.factor));
  const double of_scores = 1 + static_cast<double>(config.mscale_factor / 0.1f) * log_factor;
  config.decoder.attention_scale *= static_cast<float>(of_scores * of_scores);
}

LatentSizes read_latent(const ConfigReader& fields, const DecoderConfig& config) {
  constexpr FieldName kRank{"attention.kv_lora_rank", "kv_lora_rank"}, kQRank{"attention.q_lora_rank", "q_lora_rank"};
  constexpr FieldName kUnrotated{nullptr, "qk_nope_head_dim"}, kRotated{"rope.dimension_count", "qk_rope_head_dim"};
  LatentSizes sizes;
  sizes.q_rank = fields.size_or(kQRank, 0, 0, 1 << 20);
  sizes.rotated = fields.size_or(kRotated, 64, 2, 1 << 12);
  if (sizes.rotated % 2 != 0) fields.refuse(kRotated, "is odd");
  if (fields.is_hugging_face()) {
    sizes.rank = fields.size(kRank, 1 << 14);
    sizes.unrotated = fields.size(kUnrotated, 1 << 12);
    sizes.value = fields.size({nullptr, "v_head_dim"}, 1 << 12);
    return sizes;
  }
  // Files since April 2025 have the sizes of heads in separate fields, and the sizes of latents in the usual ones.
  constexpr FieldName kNewKey{"attention.key_length_mla", nullptr}, kKey{"attention.key_length", nullptr};
  constexpr FieldName kNewValue{"attention.value_length_mla", nullptr}, kValue{"attention.value_length", nullptr};
  const FieldName key = fields.has(kNewKey) ? kNewKey : kKey;
  sizes.rank = fields.size_or(kRank, 512, 1, 1 << 14);
  const int64_t length = fields.size_or(key, config.shape.head_dimension + sizes.rotated, 1, 1 << 12);
  if (length <= sizes.rotated)
    fields.refuse(key, "is " + std::to_string(length) + ", not more than the rotated " + std::to_string(sizes.rotated));
  sizes.unrotated = length - sizes.rotated;
  sizes.value = fields.size_or(fields.has(kNewValue) ? kNewValue : kValue, sizes.unrotated, 1, 1 << 12);
  return sizes;
}

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  Config config{.decoder = read_mixed_config(fields, kNames, ValueLength::kAny), .latent = {}};
  DecoderConfig& decoder = config.decoder;
  constexpr FieldName kKvHeads{nullptr, "num_key_value_heads"};  // every head has its keys
  if (fields.config_class() != nullptr && decoder.shape.heads / decoder.shape.kv_heads != 1)
    fields.refuse(kKvHeads, fmt::format("is {}, the model has {} heads", decoder.shape.kv_heads, decoder.shape.heads));
  config.latent = read_latent(fields, decoder);
  const LatentSizes& latent = config.latent;
  constexpr FieldName kRotations{nullptr, "head_dim"};
  const ClassConfig* const of = fields.config_class();
  if (of != nullptr && of->has_rotary_head_dim() &&
      fields.size_or(kRotations, latent.rotated, 1, 1 << 20) != latent.rotated)
    fields.refuse(kRotations, fmt::format("is not the {} of qk_rope_head_dim", latent.rotated));
  decoder.rope =
      read_rope(fields, {.head_dimension = latent.rotated, .context_trained = decoder.shape.context_trained});
  decoder.rope.interleaved = fields.flag_or({nullptr, "rope_interleave"}, true);
  decoder.attention_scale = 1 / std::sqrt(static_cast<float>(latent.unrotated + latent.rotated));
  read_yarn(fields, config);
  decoder.shape.kv_heads = 1;
  decoder.shape.head_dimension = latent.rank + latent.rotated;
  decoder.activation = read_activation(fields, Activation::kSilu);
  const bool third = fields.is_hugging_face() && architecture_of(checkpoint) == "deepseek_v3";
  decoder.mixture.score = third ? RouterScore::kSigmoid : RouterScore::kSoftmax;
  decoder.mixture.normalized = third;
  constexpr FieldName kMethod{nullptr, "topk_method"};
  const std::string method = fields.text_or(kMethod, third ? "noaux_tc" : "greedy");
  if (!third && fields.is_hugging_face() && method != "greedy" && method != "group_limited_greedy")
    fields.refuse(kMethod, fmt::format("is '{}', expected greedy or group_limited_greedy", method));
  if (fields.is_hugging_face() && method == "group_limited_greedy") {
    for (const FieldName name : {FieldName{nullptr, "n_group"}, FieldName{nullptr, "topk_group"}}) {
      if (fields.is_null(name)) fields.refuse(name, "is missing, and topk_method is group_limited_greedy");
    }
  }
  read_mixture(fields, decoder);
  if (fields.is_hugging_face() && method == "greedy") decoder.mixture.groups = decoder.mixture.groups_used = 1;
  read_leading_dense(fields, {nullptr, "first_k_dense_replace"}, decoder);
  return config;
}

std::unique_ptr<LanguageModel> build(const Checkpoint& checkpoint, WeightSource& weights, int64_t context) {
  const Config config = read_config(checkpoint);
  const auto mixer = [&](const MixerPlace& at) {
    return std::make_unique<LatentAttention>(config.decoder, config.latent, at.rope, at.weights, at.prefix);
  };
  return std::make_unique<Decoder>(config.decoder, checkpoint, weights, context, mixer);
}

void write_fields(const Checkpoint& checkpoint, GgufFields& fields) {
  Config config = read_config(checkpoint);
  const DecoderConfig& decoder = config.decoder;
  const LatentSizes& latent = config.latent;
  config.decoder.value_length = latent.rank;
  config.decoder.rope.attention_factor = config.magnitude;
  config.decoder.attention_scale = default_attention_scale(decoder.shape);  // as the fields below make it
  write_decoder_fields(decoder, fields);
  if (latent.q_rank > 0) fields.size("attention.q_lora_rank", latent.q_rank);
  fields.size("attention.kv_lora_rank", latent.rank);
  fields.size("attention.key_length_mla", latent.unrotated + latent.rotated);
  fields.size("attention.value_length_mla", latent.value);
  if (config.mscale_factor != 0) fields.number("rope.scaling.yarn_log_multiplier", config.mscale_factor);
}

}  // namespace

extern const Family kDeepSeek;
const Family kDeepSeek = {
    .architectures = kArchitectures,
    .names = kNames,
    .read_shape = [](const Checkpoint& checkpoint) { return read_config(checkpoint).decoder.shape; },
    .build = build,
    .write_fields = write_fields,
};

}  // namespace gabbro::llm::deepseek
