// GLM-4.5, 4.6 and 4.5-Air: after a few dense layers mixtures of experts with shared ones, chosen as DeepSeek V3 does;
// partly rotated heads.
#include <fmt/format.h>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::glm_moe {
namespace {

constexpr std::string_view kArchitectures[] = {"glm4moe", "glm4_moe"};

constexpr WeightName kOwn[] = {
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
};
constexpr auto kNames = with_names(kOwn, kMixtureDecoderNames);

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kNames);
  config.ffn_norm_name = "post_attention_norm";
  config.activation = read_activation(fields, Activation::kSilu);
  constexpr FieldName kNorms{nullptr, "use_qk_norm"};
  const bool has_norms = has_weight(kNames, checkpoint, "blk.0.attn_q_norm.weight");
  if (fields.config_class() != nullptr ? fields.flag_or(kNorms, false) : has_norms) config.qk_norm = QkNorm::kHead;
  config.mixture.score = RouterScore::kSigmoid;
  config.mixture.normalized = true;
  read_mixture(fields, config);
  read_leading_dense(fields, {nullptr, "first_k_dense_replace"}, config);
  // GGUF files count the layers that predict further tokens, which are not used.
  constexpr FieldName kFurther{"nextn_predict_layers", nullptr};
  config.shape.layers -= fields.size_or(kFurther, 0, 0, config.shape.layers - 1);
  config.layers.resize(static_cast<size_t>(config.shape.layers));
  return config;
}

}  // namespace

extern const Family kGlmMoe;
const Family kGlmMoe = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::glm_moe
