// OLMo 1: a Llama whose LayerNorms have no weights.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::olmo1 {
namespace {

constexpr std::string_view kArchitectures[] = {"olmo"};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  constexpr FieldName kClip{"attention.clamp_kqv", "clip_qkv"};
  if (fields.number_or(kClip, 0.0f, 0.0f, 1e30f) != 0) fields.refuse(kClip, "is not supported");
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  config.norm = NormKind::kLayer;
  config.plain_norms = true;
  config.norm_epsilon = 1e-5f;  // of transformers, which reads no field
  config.paired_heads = true;
  config.rope.interleaved = true;
  config.activation = read_activation(fields, Activation::kSilu);
  return config;
}

}  // namespace

extern const Family kOlmo1;
const Family kOlmo1 = decoder_family<read_config>(kArchitectures, kDecoderNames);

}  // namespace gabbro::llm::olmo1
