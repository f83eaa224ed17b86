// Qwen 2, 2.5 and 3, dense and mixtures of experts: biases on queries, keys and values before 3, norms of queries and
// keys since.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::qwen {
namespace {

constexpr std::string_view kQwen2Names[] = {"qwen2"};
constexpr std::string_view kQwen3Names[] = {"qwen3"};
constexpr std::string_view kQwen2MoeNames[] = {"qwen2moe", "qwen2_moe"};
constexpr std::string_view kQwen3MoeNames[] = {"qwen3moe", "qwen3_moe"};

constexpr FieldName kFirstWindow{nullptr, "max_window_layers"};

// Windows begin with a layer.
DecoderConfig read_qwen2(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  config.layers = read_layers(fields, config.shape.layers, {.first = fields.size_or(kFirstWindow, 0, 0, 1 << 16)});
  config.activation = read_activation(fields, Activation::kSilu);
  return config;
}

DecoderConfig read_qwen3(const Checkpoint& checkpoint) {
  DecoderConfig config = read_qwen2(checkpoint);
  config.qk_norm = QkNorm::kHead;
  return config;
}

// Files without the field: llama.cpp normalizes the weights of Qwen 3, transformers the weights of neither.
DecoderConfig read_mixed(const Checkpoint& checkpoint, bool normalized_in_gguf) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kMixtureDecoderNames);
  config.activation = read_activation(fields, Activation::kSilu);
  config.mixture.normalized = normalized_in_gguf && !fields.is_hugging_face();
  read_mixture(fields, config);
  read_sparse_steps(fields, config);
  return config;
}

// Windows end with a layer, and before it every other one has them.
DecoderConfig read_qwen2_moe(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed(checkpoint, false);
  if (fields.is_hugging_face())
    config.layers =
        read_layers(fields, config.shape.layers, {.pattern = 2, .end = fields.size_or(kFirstWindow, 28, 0, 1 << 16)});
  return config;
}

DecoderConfig read_qwen3_moe(const Checkpoint& checkpoint) {
  DecoderConfig config = read_mixed(checkpoint, true);
  config.qk_norm = QkNorm::kHead;
  return config;
}

}  // namespace

extern const Family kQwen2, kQwen3, kQwen2Moe, kQwen3Moe;
const Family kQwen2 = decoder_family<read_qwen2>(kQwen2Names, kDecoderNames);
const Family kQwen3 = decoder_family<read_qwen3>(kQwen3Names, kDecoderNames);
const Family kQwen2Moe = decoder_family<read_qwen2_moe>(kQwen2MoeNames, kMixtureDecoderNames);
const Family kQwen3Moe = decoder_family<read_qwen3_moe>(kQwen3MoeNames, kMixtureDecoderNames);

}  // namespace gabbro::llm::qwen
