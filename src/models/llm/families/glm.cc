// GLM-4 9B and 32B, and their vision models' text part: partly rotated heads in neighboring pairs, gate and up in one
// matrix; the later ones have norms after each block too.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::glm {
namespace {

constexpr std::string_view kArchitectures[] = {"glm4", "glm"};

constexpr WeightName kOwn[] = {
    {"blk.{}.post_attention_norm", "model.layers.{}.post_self_attn_layernorm"},
    {"blk.{}.post_ffw_norm", "model.layers.{}.post_mlp_layernorm"},
};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kNames);
  if (has_weight(kNames, checkpoint, "blk.0.post_ffw_norm.weight")) config.norm_placement = NormPlacement::kAround;
  config.rope.interleaved = true;
  config.activation = read_activation(fields, Activation::kSilu);
  return config;
}

}  // namespace

extern const Family kGlm;
const Family kGlm = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::glm
