// Ministral 3: a Mistral whose queries get a factor that grows with their position.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::mistral3 {
namespace {

constexpr std::string_view kArchitectures[] = {"mistral3", "ministral3"};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  config.paired_heads = true;
  config.rope.interleaved = true;
  config.activation = read_activation(fields, Activation::kSilu);
  constexpr FieldName kScale{"attention.temperature_scale",
                             "rope_parameters.llama_4_scaling_beta|rope_scaling.llama_4_scaling_beta"};
  constexpr FieldName kLength{"attention.temperature_length", nullptr};
  constexpr FieldName kOriginal{nullptr, "rope_parameters.original_max_position_embeddings"};
  if (fields.config_class() != nullptr) {  // which has no model without the factor
    for (const FieldName name : {kScale, kOriginal}) {
      if (!fields.has(name)) fields.refuse(name, "is missing");
    }
  }
  config.temperature.scale = fields.number_or(kScale, 0.0f, 0.0f, 100.0f);
  config.temperature.length = fields.size_or(kLength, config.rope.original_context, 1, int64_t{1} << 32);
  for (LayerKind& kind : config.layers) kind.tempered = true;
  return config;
}

}  // namespace

extern const Family kMistral3;
const Family kMistral3 = decoder_family<read_config>(kArchitectures, kDecoderNames);

}  // namespace gabbro::llm::mistral3
