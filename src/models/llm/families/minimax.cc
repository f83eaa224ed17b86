// MiniMax M2: experts that are scored each by itself and chosen with a bias; norms of all queries and of all keys;
// partly rotated heads.
#include <fmt/format.h>

#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::minimax {
namespace {

constexpr std::string_view kArchitectures[] = {"minimax-m2", "minimax_m2"};

constexpr WeightName kOwn[] = {
    {"blk.{}.ffn_gate_inp", "model.layers.{}.block_sparse_moe.gate"},
    {"blk.{}.exp_probs_b.bias", "model.layers.{}.block_sparse_moe.e_score_correction_bias", true},
    {"blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.e_score_correction_bias", true},
    {"blk.{}.ffn_gate_exps", "model.layers.{}.block_sparse_moe.experts.*.w1"},
    {"blk.{}.ffn_up_exps", "model.layers.{}.block_sparse_moe.experts.*.w3"},
    {"blk.{}.ffn_down_exps", "model.layers.{}.block_sparse_moe.experts.*.w2"},
};
constexpr auto kNames = with_names(kOwn, kMixtureDecoderNames);

DecoderConfig read_config(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kNames);
  config.qk_norm = QkNorm::kAllHeads;
  config.activation = read_activation(fields, Activation::kSilu);
  constexpr FieldName kRotated{nullptr, "rotary_dim"}, kFraction{nullptr, "rope_parameters.partial_rotary_factor"};
  if (!fields.has(kFraction))
    config.rope.dimensions = fields.size_or(kRotated, config.rope.dimensions, 2, config.shape.head_dimension);
  if (config.rope.dimensions % 2 != 0)
    fields.refuse(kRotated, fmt::format("is {}, expected an even number", config.rope.dimensions));
  config.mixture.score = RouterScore::kSigmoid;
  config.mixture.normalized = true;
  read_mixture(fields, config);
  return config;
}

}  // namespace

extern const Family kMiniMax;
const Family kMiniMax = decoder_family<read_config>(kArchitectures, kNames);

}  // namespace gabbro::llm::minimax
