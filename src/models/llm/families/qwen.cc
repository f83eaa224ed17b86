// Qwen 2, 2.5 and 3 (dense): biases on queries, keys and values before 3, norms of queries and keys since.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

constexpr std::string_view kQwen2Names[] = {"qwen2"};
constexpr std::string_view kQwen3Names[] = {"qwen3"};

DecoderConfig read_qwen2(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  config.activation = read_activation(fields, Activation::kSilu);
  return config;
}

DecoderConfig read_qwen3(const Checkpoint& checkpoint) {
  DecoderConfig config = read_qwen2(checkpoint);
  config.qk_norm = QkNorm::kHead;
  return config;
}

}  // namespace

extern const Family kQwen2, kQwen3;
const Family kQwen2 = decoder_family<read_qwen2>(kQwen2Names, kDecoderNames);
const Family kQwen3 = decoder_family<read_qwen3>(kQwen3Names, kDecoderNames);

}  // namespace gabbro::llm
