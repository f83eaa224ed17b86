// StableLM: a Llama with layer norms and partly rotated heads; 12B has both blocks in parallel after one norm, and
// norms with a weight for each head.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::stablelm {
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
  constexpr FieldName kRotated{nullptr, "head_dim"};
  if (fields.has(kRotated) && fields.size(kRotated, 1 << 12) != config.shape.head_dimension)
    fields.refuse(kRotated, fmt::format("is not {}, as hidden_size makes it", config.shape.head_dimension));
  const bool known = fields.config_class() != nullptr;  // else the tensors say it
  const bool has_norms = has_weight(kNames, checkpoint, "blk.0.attn_q_norm.weight");
  const bool has_second = has_weight(kNames, checkpoint, "blk.0.ffn_norm.weight");
  if (known ? fields.flag_or({nullptr, "qk_layernorm"}, false) : has_norms) config.qk_norm = QkNorm::kEachHead;
  config.norm = NormKind::kLayer;
  config.parallel = config.shared_norm =
      known ? fields.flag_or({nullptr, "use_parallel_residual"}, false) : !has_second;
  config.activation = read_activation(fields, Activation::kSilu);
  return config;
}

}  // namespace

extern const Family kStableLm;
const Family kStableLm = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::stablelm
