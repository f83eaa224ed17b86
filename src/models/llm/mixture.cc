#include "src/models/llm/mixture.h"

#include <limits>

#include "gabbro/ops/experts.h"
#include "src/models/weights/cut_tensors.h"

namespace gabbro::llm {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor without(const Tensor& x, const Tensor& excluded) { return where(excluded, scalar(x.device(), -kInfinity), x); }

}  // namespace

bool Mixture::is_in(const DecoderConfig& config, const WeightSource& weights, const std::string& prefix,
                    int64_t layer) {
  if (config.shape.experts == 0) return false;
  return config.mixed_layers.empty() ? weights.has(prefix + "ffn_gate_inp.weight")
                                     : config.mixed_layers[static_cast<size_t>(layer)];
}

Mixture::Mixture(const DecoderConfig& config, WeightSource& weights, const std::string& prefix)
    : config_(config.mixture),
      activation_(config.activation),
      experts_(config.shape.experts),
      used_(config.shape.experts_used) {
  const ModelShape& s = config.shape;
  const auto experts = [&](const char* name, int64_t rows, int64_t columns, int part) {
    return weights.experts(prefix + name, {.experts = s.experts,
                                           .rows = rows,
                                           .columns = columns,
                                           .used = s.experts_used,
                                           .part = part,
                                           .interleaved = config.interleaved_experts,
                                           .transposed = config.transposed_experts});
  };
  // Rows of a matrix of biases; the rows of gate and up are stored together.
  const auto biases = [&](const char* name, int64_t columns, int64_t parts, int64_t part) {
    if (!config_.biases) return Tensor();
    TransformersLayout theirs;
    if (parts == 2) {
      theirs.shape = {s.experts, 2 * columns};
      theirs.element = [=](int64_t i) { return 2 * i + part; };
    }
    return weights.tensor(prefix + name, {s.experts, columns}, theirs);
  };
  ffn_gate_inp_ = weights.tensor(prefix + "ffn_gate_inp.weight", {s.experts, s.embedding});
  if (config_.router_bias) ffn_gate_inp_b_ = weights.vector(prefix + "ffn_gate_inp.bias", s.experts);
  if (const std::string bias = prefix + "exp_probs_b.bias"; config_.choice_bias && weights.has(bias))
    exp_probs_b_ = weights.vector(bias, s.experts, {.one_row = config_.choice_bias_in_row});
  if (config.gated) ffn_gate_exps_ = experts("ffn_gate_exps.weight", s.expert_feed_forward, s.embedding, 0);
  ffn_up_exps_ = experts("ffn_up_exps.weight", s.expert_feed_forward, s.embedding, config.gated ? 1 : 0);
  ffn_down_exps_ = experts("ffn_down_exps.weight", s.embedding, s.expert_feed_forward, 0);
  slots_ = ffn_down_exps_.slots;
  ffn_gate_exps_b_ = biases("ffn_gate_exps.bias", s.expert_feed_forward, 2, 0);
  ffn_up_exps_b_ = biases("ffn_up_exps.bias", s.expert_feed_forward, 2, 1);
  ffn_down_exps_b_ = biases("ffn_down_exps.bias", s.embedding, 1, 0);
  if (!weights.has(prefix + "ffn_down_shexp.weight")) return;
  const int64_t shared = config_.shared_feed_forward;
  if (const std::string gate = prefix + "ffn_gate_inp_shexp.weight"; weights.has(gate))
    ffn_gate_inp_shexp_ = weights.vector(gate, s.embedding, {.one_row = true});
  const int64_t other = config.joined_gate ? shared : 0;
  if (config.gated)
    ffn_gate_shexp_ = weights.linear(prefix + "ffn_gate_shexp", {shared, s.embedding}, {.trailing_rows = other});
  ffn_up_shexp_ = weights.linear(prefix + "ffn_up_shexp", {shared, s.embedding}, {.skipped_rows = other});
  ffn_down_shexp_ = weights.linear(prefix + "ffn_down_shexp", {s.embedding, shared});
}

// Scores outside of the best groups of experts, as -infinity (DeepSeek-V2, arXiv 2405.04434; V3, arXiv 2412.19437).
Tensor Mixture::in_best_groups(const Tensor& choice) const {
  const int64_t tokens = choice.shape()[0], groups = config_.groups, members = experts_ / groups;
  const Tensor grouped = reshape(choice, Shape{tokens, groups, members});
  // Scores groups by their best expert, or by the best two if each is scored separately.
  const int64_t looked_at = config_.score == RouterScore::kSigmoid ? 2 : 1;
  const Tensor group_scores = sum(topk(grouped, std::min(looked_at, members)).values, -1);  // [T, groups]
  const Tensor best = reshape(topk(group_scores, config_.groups_used).indices, Shape{tokens, config_.groups_used, 1});
  const Tensor numbers = iota(choice.device(), groups, DType::i32);
  const Tensor chosen = reshape(any(equal(best, numbers), 1), Shape{tokens, groups, 1});
  return reshape(without(grouped, logical_not(chosen)), Shape{tokens, experts_});
}

// Phi-3.5-MoE (SparseMixer-v2, arXiv 2409.12136): the best expert, weighted by a softmax over those that are within the
// margin of it, and so on with the best of the others.
Mixture::Routing Mixture::route_by_margin(const Tensor& logits) const {
  const DevicePointer device = logits.device();
  const Tensor numbers = iota(device, experts_, DType::i32);
  std::vector<Tensor> ids, weights;
  Tensor left = logits;
  for (int64_t u = 0; u < used_; ++u) {
    const Tensor best = max(left, -1, true);                                                             // [T, 1]
    const Tensor distance = (best - logits) / maximum(abs(logits), best);                                // [T, E]
    const Tensor gates = softmax(without(left, greater(distance, scalar(device, 2 * config_.margin))));  // [T, E]
    const Tensor id = argmax(left, -1, true);                                                            // [T, 1]
    ids.push_back(id);
    weights.push_back(take_along_axis(gates, id));
    left = without(left, equal(numbers, id));
  }
  return {concat(ids, 1), concat(weights, 1)};
}

Mixture::Routing Mixture::route(const Tensor& logits) const {
  if (config_.score == RouterScore::kMargin) return route_by_margin(logits);
  if (config_.score == RouterScore::kChosenSoftmax) {
    const TopK best = topk(logits, used_);
    return {best.indices, softmax(best.values)};
  }
  if (config_.score == RouterScore::kChosenSigmoid) {
    const TopK best = topk(logits, used_);
    return {best.indices, sigmoid(best.values)};
  }
  const Tensor scores = config_.score == RouterScore::kSigmoid ? sigmoid(logits) : softmax(logits);  // [T, E]
  Tensor choice = exp_probs_b_.defined() ? scores + exp_probs_b_ : scores;
  if (config_.groups > 1) choice = in_best_groups(choice);
  const TopK best = topk(choice, used_);
  const bool changed = exp_probs_b_.defined() || config_.groups > 1;
  Tensor weights = changed ? take_along_axis(scores, best.indices) : best.values;
  if (config_.normalized) weights = weights / sum(weights, -1, true);
  if (config_.scale != 1) weights = weights * scalar(weights.device(), config_.scale);
  return {best.indices, weights};
}

// The row of each of the token's experts is added: y [T, U, N], bias [E, N].
Tensor Mixture::with_bias(const Tensor& y, const Tensor& bias, const Tensor& ids) const {
  return bias.defined() ? y + embedding(bias, ids) : y;
}

// gpt-oss (github.com/openai/gpt-oss): swish with a factor in it, gate and factor held within a limit, and 1 added to
// the factor.
Tensor Mixture::gated(const Tensor& gate, const Tensor& up) const {
  if (activation_ != Activation::kClampedSwish) return activated(activation_, gate) * up;
  const auto number = [&](float x) { return scalar(gate.device(), x); };
  const Tensor held = minimum(gate, number(config_.swish.limit));
  const Tensor factor = clamp(up, -config_.swish.limit, config_.swish.limit) + number(1);
  return factor * (held * sigmoid(held * number(config_.swish.alpha)));
}

Tensor Mixture::of_experts(const Tensor& x, const ExpertWeights& weights, const Choice& of) const {
  if (weights.observe) weights.observe(x, of.ids);
  const IndexRange& padding = weights.padding;
  if (padding.first == 0 && padding.count == 0) return expert_linear(x, weights.matrix, of.slots, of.count);
  return expert_linear(padded_columns(x, padding.first, padding.count), weights.matrix, of.slots, of.count);
}

// h [T, C] -> [T, U, C], weighted.
Tensor Mixture::run_experts(const Tensor& h, const Choice& of) const {
  if (!ffn_gate_exps_.matrix.defined()) {
    const Tensor up = of_experts(h, ffn_up_exps_, of);  // [T, U, F]
    return of_experts(activated(activation_, up), ffn_down_exps_, of) * of.weights;
  }
  Tensor gate = of_experts(h, ffn_gate_exps_, of);  // [T, U, F]
  Tensor up = of_experts(h, ffn_up_exps_, of);      // [T, U, F]
  if (config_.scaled_inputs) {                      // as if h had been scaled
    gate = gate * of.weights;
    up = up * of.weights;
  }
  gate = with_bias(gate, ffn_gate_exps_b_, of.ids);
  up = with_bias(up, ffn_up_exps_b_, of.ids);
  const Tensor down = of_experts(gated(gate, up), ffn_down_exps_, of);
  const Tensor each = with_bias(down, ffn_down_exps_b_, of.ids);
  return config_.scaled_inputs ? each : each * of.weights;
}

Tensor Mixture::routed(const Tensor& h, const Routing& routing) const {
  const Tensor weights = reshape(routing.weights, Shape{h.shape()[0], used_, 1});
  const Tensor each = slots_ != nullptr ? run_by_need(h, {routing.ids, routing.ids, weights, experts_})
                                        : run_experts(h, {routing.ids, routing.ids, weights, experts_});  // [T, U, C]
  return sum(each, 1);                                                                                    // [T, C]
}

Tensor Mixture::operator()(const Tensor& h) const {
  const Tensor routed = this->routed(h, route(linear(h, ffn_gate_inp_, ffn_gate_inp_b_)));
  if (ffn_down_shexp_ == nullptr) return routed;
  const Tensor up = (*ffn_up_shexp_)(h);  // [T, S]
  const bool has_gate = ffn_gate_shexp_ != nullptr;
  Tensor shared =
      (*ffn_down_shexp_)(has_gate ? gated((*ffn_gate_shexp_)(h), up) : activated(activation_, up));  // [T, C]
  if (ffn_gate_inp_shexp_.defined())
    shared = shared * sigmoid(linear(h, reshape(ffn_gate_inp_shexp_, Shape{1, h.shape()[1]})));
  return routed + shared;
}

}  // namespace gabbro::llm
