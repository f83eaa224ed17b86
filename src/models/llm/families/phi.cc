// Phi 1, 1.5 and 2: attention and feed-forward block in parallel after one norm, and biases everywhere.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::phi {
namespace {

constexpr std::string_view kArchitectures[] = {"phi2", "phi"};

constexpr WeightName kOwn[] = {
    {"output_norm", "model.final_layernorm"},
    {"blk.{}.attn_output", "model.layers.{}.self_attn.dense"},
    {"blk.{}.ffn_up", "model.layers.{}.mlp.fc1"},
    {"blk.{}.ffn_down", "model.layers.{}.mlp.fc2"},
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  constexpr FieldName kQkNorm{nullptr, "qk_layernorm"};
  if (fields.flag_or(kQkNorm, false)) fields.refuse(kQkNorm, "is true, which is not supported");
  DecoderConfig config = read_decoder_config(fields, kNames);
  config.norm = NormKind::kLayer;
  config.parallel = config.shared_norm = true;
  config.gated = false;
  config.activation = read_activation(fields, Activation::kGeluTanh);
  return config;
}

}  // namespace

extern const Family kPhi;
const Family kPhi = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::phi
