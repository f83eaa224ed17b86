// OLMoE: a mixture of experts with norms of all queries and of all keys.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::olmoe {
namespace {

constexpr std::string_view kArchitectures[] = {"olmoe"};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kMixtureDecoderNames);
  config.qk_norm = QkNorm::kAllHeads;
  config.activation = read_activation(fields, Activation::kSilu);
  constexpr FieldName kClip{nullptr, "clip_qkv"};
  if (fields.number_or(kClip, 0.0f, 0.0f, 1e30f) != 0) fields.refuse(kClip, "is not supported");
  read_mixture(fields, config);
  for (LayerKind& kind : config.layers) kind.window = 0;  // transformers reads sliding_window, and has no mask of it
  return config;
}

}  // namespace

extern const Family kOlmoe;
const Family kOlmoe = decoder_family<read_config>(kArchitectures, kMixtureDecoderNames);

}  // namespace gabbro::llm::olmoe
