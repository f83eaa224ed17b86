#include "src/models/llm/granite_factors.h"

namespace gabbro::llm {

void read_granite_factors(const ConfigReader& fields, DecoderConfig& config) {
  constexpr FieldName kScale{nullptr, "attention_multiplier"};
  if (fields.is_null(kScale)) fields.refuse(kScale, "is null");
  const float scale = fields.number_or(kScale, 0.0f, 0.0f, 1e3f);
  if (scale != 0) config.attention_scale = scale;
  config.embedding_scale = fields.number_or({"embedding_scale", "embedding_multiplier"}, 1.0f, 1e-6f, 1e6f);
  config.embedding_scale_given = config.embedding_scale != 1;
  config.residual_scale = fields.number_or({"residual_scale", "residual_multiplier"}, 1.0f, 1e-6f, 1e6f);
  config.logit_scale = 1 / fields.number_or({"logit_scale", "logits_scaling"}, 1.0f, 1e-6f, 1e6f);
  config.logits_divided = true;
}

}  // namespace gabbro::llm
