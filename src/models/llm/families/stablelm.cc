// StableLM: a Llama with layer norms and partly rotated heads; 12B has both blocks in parallel after one norm, and
// norms with a weight for each head.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

constexpr std::string_view kArchitectures[] = {"stablelm"};

constexpr WeightName kOwnNames[] = {
    {"blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_layernorm.norms.*"},
    {"blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_layernorm.norms.*"},
};
constexpr auto kNames = with_names(kOwnNames, kDecoderNames);

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  config.stacked_norms = true;
  if (has_weight(kNames, checkpoint, "blk.0.attn_q_norm.weight") || fields.flag_or({nullptr, "qk_layernorm"}, false))
    config.qk_norm = QkNorm::kEachHead;
  config.norm = NormKind::kLayer;
  config.parallel = config.shared_norm = !has_weight(kNames, checkpoint, "blk.0.ffn_norm.weight");
  config.activation = read_activation(fields, Activation::kSilu);
  return config;
}

}  // namespace

extern const Family kStableLm;
const Family kStableLm = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm
