// dots.llm1: attention of Qwen 3, and mixtures of experts of DeepSeek V3 after the first layers.
#include <algorithm>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::dots {
namespace {

constexpr std::string_view kArchitectures[] = {"dots1"};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kMixtureDecoderNames);
  const int64_t full = fields.size_or({nullptr, "max_window_layers"}, 62, 0, 1 << 16);
  config.layers = read_layers(fields, config.shape.layers, {.first = full});
  config.qk_norm = QkNorm::kHead;
  config.activation = read_activation(fields, Activation::kSilu);
  config.mixture.score = RouterScore::kSigmoid;
  read_mixture(fields, config);
  read_leading_dense(fields, {nullptr, "first_k_dense_replace"}, config);
  return config;
}

}  // namespace

extern const Family kDots;
const Family kDots = decoder_family<read_config>(kArchitectures, kMixtureDecoderNames);

}  // namespace gabbro::llm::dots
