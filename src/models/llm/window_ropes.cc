#include "src/models/llm/window_ropes.h"

namespace gabbro::llm {

void read_window_ropes(const ConfigReader& fields, DecoderConfig& config, float base_of_gguf) {
  constexpr FieldName kFull{nullptr, "rope_parameters.full_attention.rope_theta"};
  constexpr FieldName kLocal{nullptr, "rope_parameters.sliding_attention.rope_theta"};
  constexpr FieldName kLocalBase{"rope.freq_base_swa", nullptr};
  RopeSource source{.head_dimension = config.shape.head_dimension, .context_trained = config.shape.context_trained};
  if (fields.has(kFull)) {
    source.section = "full_attention.";
    config.rope = read_rope(fields, source);
  }
  if (fields.has(kLocal)) {
    source.section = "sliding_attention.";
    config.local_rope = read_rope(fields, source);
  } else {
    config.local_rope = {nn::RopeConfig{.dimensions = config.rope.dimensions,
                                        .interleaved = false,
                                        .base = fields.number_or(kLocalBase, base_of_gguf, 1.0f, 1e12f)}};
  }
  for (LayerKind& kind : config.layers) kind.local_rope = kind.window > 0;
}

}  // namespace gabbro::llm
