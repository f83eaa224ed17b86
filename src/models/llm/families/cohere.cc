// Command R, R+ and R7B (Cohere 1 and 2): both blocks in parallel after one norm without bias, pairs of rotation next
// to each other; in 2 three of four layers have a window, and they alone rotate.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::cohere {
namespace {

constexpr std::string_view kNames1[] = {"command-r", "cohere"};
constexpr std::string_view kNames2[] = {"cohere2"};

DecoderConfig read_common(const ConfigReader& fields) {
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  const bool has_norms = has_weight(kDecoderNames, fields.checkpoint(), "blk.0.attn_q_norm.weight");
  if (fields.config_class() != nullptr ? fields.flag_or({nullptr, "use_qk_norm"}, false) : has_norms)
    config.qk_norm = QkNorm::kEachHead;
  config.norm = NormKind::kLayer;
  config.parallel = config.shared_norm = true;
  config.rope.interleaved = true;
  config.activation = read_activation(fields, Activation::kSilu);
  config.logit_scale_given = true;
  config.logit_scale = fields.number_or({"logit_scale", "logit_scale"}, 0.0625f, 1e-6f, 1e6f);
  return config;
}

DecoderConfig read_cohere1(const Checkpoint& checkpoint) { return read_common(ConfigReader(checkpoint)); }

DecoderConfig read_cohere2(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_common(fields);
  config.layers = read_layers(fields, config.shape.layers, {.pattern = 4});
  for (LayerKind& kind : config.layers) kind.rotated = kind.window > 0;
  return config;
}

}  // namespace

extern const Family kCohere, kCohere2;
const Family kCohere = decoder_family<read_cohere1>(kNames1, kDecoderNames);
const Family kCohere2 = decoder_family<read_cohere2>(kNames2, kDecoderNames);

}  // namespace gabbro::llm::cohere
