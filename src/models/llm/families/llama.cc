// Llama 1 to 3, Mistral, Ministral, SmolLM 1 and 2, Yi, TinyLlama, Vicuna and others; Granite, which scales the stream.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

constexpr std::string_view kLlamaNames[] = {"llama", "mistral", "ministral"};
constexpr std::string_view kGraniteNames[] = {"granite"};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  config.paired_heads = true;
  config.rope.interleaved = true;
  config.activation = read_activation(fields, Activation::kSilu);
  const float scale = fields.number_or({nullptr, "attention_multiplier"}, 0.0f, 0.0f, 1e3f);
  if (scale != 0) config.attention_scale = scale;
  config.embedding_scale = fields.number_or({"embedding_scale", "embedding_multiplier"}, 1.0f, 1e-6f, 1e6f);
  config.embedding_scale_given = config.embedding_scale != 1;
  config.residual_scale = fields.number_or({"residual_scale", "residual_multiplier"}, 1.0f, 1e-6f, 1e6f);
  config.logit_scale = 1 / fields.number_or({"logit_scale", "logits_scaling"}, 1.0f, 1e-6f, 1e6f);
  config.logits_divided = true;
  return config;
}

}  // namespace

extern const Family kLlama, kGranite;
const Family kLlama = decoder_family<read_config>(kLlamaNames, kDecoderNames);
const Family kGranite = decoder_family<read_config>(kGraniteNames, kDecoderNames);

}  // namespace gabbro::llm
