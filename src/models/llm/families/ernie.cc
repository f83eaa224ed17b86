// ERNIE 4.5, dense and mixtures of experts: heads are rotated in neighboring pairs; experts are chosen by the softmax
// of their logits and a bias.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::ernie {
namespace {

constexpr std::string_view kDense[] = {"ernie4_5"};
constexpr std::string_view kMixed[] = {"ernie4_5-moe", "ernie4_5_moe"};

constexpr WeightName kOwn[] = {
    {"blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.moe_statics.e_score_correction_bias", true},
    {"blk.{}.exp_probs_b.bias", "model.layers.{}.mlp.gate.moe_statics.e_score_correction_bias", true},
};
constexpr auto kMixedNames = with_names(kOwn, kMixtureDecoderNames);

DecoderConfig read_dense(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_decoder_config(fields, kDecoderNames);
  config.rope.interleaved = true;
  config.activation = read_activation(fields, Activation::kSilu);
  return config;
}

// Every n-th layer from the first to the last one; -1: the model's last one.
void read_mixed_layers(const ConfigReader& fields, DecoderConfig& config) {
  constexpr FieldName kFirst{nullptr, "moe_layer_start_index"}, kLast{nullptr, "moe_layer_end_index"};
  constexpr FieldName kStep{nullptr, "moe_layer_interval"};
  if (fields.config_class() == nullptr || config.shape.experts == 0) return;
  const int64_t step = fields.size_or(kStep, 1, 1, 1 << 16), first = fields.size_or(kFirst, 0, 0, 1 << 16);
  const int64_t given = fields.index_or(kLast, -1), last = given == -1 ? config.shape.layers - 1 : given;
  for (int64_t i = 0; i < config.shape.layers; ++i)
    config.mixed_layers.push_back((i + 1) % step == 0 && i >= first && i <= last);
}

DecoderConfig read_mixed(const Checkpoint& checkpoint) {
  const ConfigReader fields(checkpoint);
  DecoderConfig config = read_mixed_config(fields, kMixedNames);
  config.rope.interleaved = true;
  config.activation = read_activation(fields, Activation::kSilu);
  config.mixture.normalized = config.mixture.choice_bias_in_row = true;
  read_mixture(fields, config);
  read_mixed_layers(fields, config);
  return config;
}

}  // namespace

extern const Family kErnie, kErnieMoe;
const Family kErnie = decoder_family<read_dense>(kDense, kDecoderNames);
const Family kErnieMoe = decoder_family<read_mixed>(kMixed, kMixedNames);

}  // namespace gabbro::llm::ernie
