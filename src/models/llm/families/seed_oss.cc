// Seed-OSS: a Llama with biases on queries, keys and values.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::seed_oss {
namespace {

constexpr std::string_view kArchitectures[] = {"seed_oss"};

constexpr WeightName kOwn[] = {
    {"blk.{}.post_attention_norm", "model.layers.{}.post_attention_layernorm"},
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  config.ffn_norm_name = "post_attention_norm";
  config.activation = read_activation(fields, Activation::kSilu);
  return config;
}

}  // namespace

extern const Family kSeedOss;
const Family kSeedOss = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::seed_oss
