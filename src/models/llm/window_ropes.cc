#include "src/models/llm/window_ropes.h"

namespace gabbro::llm {

void read_window_ropes(const ConfigReader& fields, DecoderConfig& config) {
  const ModelShape& shape = config.shape;
  RopeSource source{.head_dimension = shape.head_dimension, .context_trained = shape.context_trained};
  source.section = "full_attention.";
  config.rope = read_rope(fields, source);
  source.section = "sliding_attention.";
  ModelRope local = read_rope(fields, source);
  local = {nn::RopeConfig{.dimensions = local.dimensions, .interleaved = false, .base = local.base}};
  constexpr FieldName kLocalBase{"rope.freq_base_swa", "rope_local_base_freq"};
  constexpr FieldName kNewLocalBase{nullptr, "rope_parameters.sliding_attention.rope_theta"};
  local.base = fields.number_or(fields.has(kNewLocalBase) ? kNewLocalBase : kLocalBase, 10000.0f, 1.0f, 1e12f);
  config.local_rope = local;
  for (LayerKind& kind : config.layers) kind.local_rope = kind.window > 0;
}

}  // namespace gabbro::llm
