#include <fmt/format.h>

#include <algorithm>

#include "src/models/llm/gguf_fields.h"
#include "src/models/llm/mixture.h"

namespace gabbro::llm {
namespace {

constexpr int64_t kMostExperts = int64_t{1} << 16;

// Numbers of llama.cpp.
enum GatingFunction : int64_t {
  kNoFunction = 0,
  kSoftmaxFunction = 1,
  kSigmoidFunction = 2,
  kChosenSoftmaxFunction = 3
};

RouterScore read_score(const ConfigReader& fields, RouterScore otherwise) {
  constexpr FieldName kFunction{"expert_gating_func", nullptr};
  const int64_t function = fields.size_or(kFunction, kNoFunction, 0, 1 << 16);
  if (function == kNoFunction) return otherwise;
  if (function == kSigmoidFunction)
    return otherwise == RouterScore::kChosenSigmoid ? RouterScore::kChosenSigmoid : RouterScore::kSigmoid;
  if (function == kChosenSoftmaxFunction) return RouterScore::kChosenSoftmax;
  if (function != kSoftmaxFunction) fields.refuse(kFunction, fmt::format("is {}, expected 0 to 3", function));
  return otherwise == RouterScore::kSigmoid ? RouterScore::kSoftmax : otherwise;
}

}  // namespace

void read_mixture(const ConfigReader& fields, DecoderConfig& config) {
  ModelShape& shape = config.shape;
  MixtureConfig& mixture = config.mixture;
  shape.experts = fields.size_or(kExpertCount, 0, 0, kMostExperts);
  if (shape.experts == 0) return;
  constexpr FieldName kUsed{"expert_used_count", "num_experts_per_tok|moe_topk|moe_k"};
  shape.experts_used = fields.size(kUsed, shape.experts);
  shape.expert_feed_forward =
      fields.size_or({"expert_feed_forward_length", "moe_intermediate_size"}, shape.feed_forward, 1, int64_t{1} << 22);
  const int64_t shared = fields.size_or(
      {"expert_shared_count", "n_shared_experts|moe_num_shared_experts|num_shared_expert"}, 1, 0, 1 << 10);
  mixture.shared_feed_forward =
      fields.size_or({"expert_shared_feed_forward_length",
                      "shared_expert_intermediate_size|shared_intermediate_size|moe_shared_expert_intermediate_size"},
                     shared * shape.expert_feed_forward, 0, int64_t{1} << 22);
  mixture.score = read_score(fields, mixture.score);
  mixture.normalized = fields.flag_or({"expert_weights_norm", "norm_topk_prob"}, mixture.normalized);
  mixture.scale = fields.number_or({"expert_weights_scale", "routed_scaling_factor"}, 1.0f, 0.0f, 1e6f);
  if (mixture.scale == 0) mixture.scale = 1;  // as some files say that there is none
  constexpr FieldName kGroups{"expert_group_count", "n_group"};
  mixture.groups = fields.size_or(kGroups, 1, 1, shape.experts);
  if (shape.experts % mixture.groups != 0)
    fields.refuse(kGroups, fmt::format("is {}, which does not divide the {} experts", mixture.groups, shape.experts));
  mixture.groups_used = fields.size_or({"expert_group_used_count", "topk_group"}, mixture.groups, 1, mixture.groups);
  if (mixture.groups_used * (shape.experts / mixture.groups) < shape.experts_used)
    fields.refuse(kUsed, fmt::format("is {}, more than {} groups have", shape.experts_used, mixture.groups_used));
}

void read_leading_dense(const ConfigReader& fields, FieldName count, DecoderConfig& config) {
  if (fields.config_class() == nullptr || config.shape.experts == 0) return;
  const int64_t dense = fields.size_or(count, 0, 0, 1 << 16);
  for (int64_t i = 0; i < config.shape.layers; ++i) config.mixed_layers.push_back(i >= dense);
}

void read_sparse_steps(const ConfigReader& fields, DecoderConfig& config) {
  constexpr FieldName kStep{nullptr, "decoder_sparse_step"}, kDense{nullptr, "mlp_only_layers"};
  if (fields.config_class() == nullptr || config.shape.experts == 0) return;
  const int64_t step = fields.size_or(kStep, 1, 1, 1 << 16);
  for (int64_t i = 0; i < config.shape.layers; ++i) config.mixed_layers.push_back((i + 1) % step == 0);
  for (const int64_t layer : fields.sizes(kDense)) {
    if (layer >= 0 && layer < config.shape.layers) config.mixed_layers[static_cast<size_t>(layer)] = false;
  }
}

namespace {

// llama.cpp finds the layers with a router, and the width of shared experts, by these fields alone.
void write_mixed_layers(const MixtureConfig& mixture, int64_t expert_feed_forward, GgufFields& fields) {
  const int64_t shared = mixture.shared_feed_forward, whole = std::max<int64_t>(shared / expert_feed_forward, 1);
  if (fields.has_shared_expert) fields.size("expert_shared_feed_forward_length", shared);
  fields.size("expert_shared_count", fields.has_shared_expert ? whole : 0);
  const std::vector<bool>& mixed = fields.mixed_layers;
  const auto first = std::ranges::find(mixed, true) - mixed.begin(), layers = std::ssize(mixed);
  fields.size("leading_dense_block_count", first);
  const auto has_step = [&](int64_t step) {
    for (int64_t i = first; i < layers; ++i) {
      if (mixed[static_cast<size_t>(i)] != ((i + 1) % step == 0)) return false;
    }
    return true;
  };
  for (int64_t step = 1; step <= layers; ++step) {
    if (has_step(step)) return fields.size("interleave_moe_layer_step", step);
  }
}

}  // namespace

void write_mixture_fields(const DecoderConfig& config, GgufFields& fields) {
  const ModelShape& shape = config.shape;
  const MixtureConfig& mixture = config.mixture;
  if (shape.experts == 0) return;
  fields.size("expert_count", shape.experts);
  fields.size("expert_used_count", shape.experts_used);
  fields.size("expert_feed_forward_length", shape.expert_feed_forward);
  write_mixed_layers(mixture, shape.expert_feed_forward, fields);
  const bool sigmoid = mixture.score == RouterScore::kSigmoid || mixture.score == RouterScore::kChosenSigmoid;
  fields.size("expert_gating_func", sigmoid                                        ? kSigmoidFunction
                                    : mixture.score == RouterScore::kChosenSoftmax ? kChosenSoftmaxFunction
                                                                                   : kSoftmaxFunction);
  fields.writer.add_bool(fields.architecture + ".expert_weights_norm", mixture.normalized);
  if (mixture.score == RouterScore::kMargin) fields.number("expert_margin", mixture.margin);
  if (mixture.swish.alpha != ClampedSwish().alpha) fields.number("expert_swiglu_alpha", mixture.swish.alpha);
  if (mixture.swish.limit != ClampedSwish().limit) fields.number("expert_swiglu_limit", mixture.swish.limit);
  if (mixture.scale != 1) fields.number("expert_weights_scale", mixture.scale);
  if (mixture.groups > 1) {
    fields.size("expert_group_count", mixture.groups);
    fields.size("expert_group_used_count", mixture.groups_used);
  }
}

}  // namespace gabbro::llm
