// StableLM: a Llama with layer norms and partly rotated heads; 12B has both blocks in parallel after one norm.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm {
namespace {

constexpr std::string_view kArchitectures[] = {"stablelm"};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  constexpr FieldName kQkNorm{nullptr, "qk_layernorm"};
  const bool qk_norm = has_weight(kDecoderNames, checkpoint, "blk.0.attn_q_norm.weight");
  if (qk_norm || fields.flag_or(kQkNorm, false))
    fields.refuse(kQkNorm, "is true: norms with a weight for each head are not supported");
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  config.norm = NormKind::kLayer;
  config.parallel = config.shared_norm = !has_weight(kDecoderNames, checkpoint, "blk.0.ffn_norm.weight");
  config.activation = read_activation(fields, Activation::kSilu);
  return config;
}

}  // namespace

extern const Family kStableLm;
const Family kStableLm = decoder_family<read_config>(kArchitectures, kDecoderNames);

}  // namespace gabbro::llm
