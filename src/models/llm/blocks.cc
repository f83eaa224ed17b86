#include "src/models/llm/blocks.h"

namespace gabbro::llm {

Norm load_norm(const DecoderConfig& config, WeightSource& weights, const std::string& name, int64_t length) {
  if (config.plain_norms) return {.weight = weights.upload(std::vector<float>(static_cast<size_t>(length), 1.0f))};
  const TransformersLayout theirs{.offset = config.norm_offset};
  Norm norm{.weight = weights.vector(name + ".weight", length, theirs)};
  if (config.norm == NormKind::kLayer && weights.has(name + ".bias"))
    norm.bias = weights.vector(name + ".bias", length);
  return norm;
}

Tensor normalized(const DecoderConfig& config, const Norm& norm, const Tensor& x) {
  if (!norm.weight.defined()) return x;
  return config.norm == NormKind::kRms ? rms_norm(x, norm.weight, config.norm_epsilon)
                                       : layer_norm(x, norm.weight, norm.bias, config.norm_epsilon);
}

FeedForward::FeedForward(const DecoderConfig& config, WeightSource& weights, const std::string& prefix, int64_t layer)
    : activation_(config.activation), gated_(config.gated) {
  if (activation_ == Activation::kXielu) xielu_ = config.xielu[static_cast<size_t>(layer)];
  const ModelShape& s = config.shape;
  const TransformersLayout theirs{.transposed = config.transposed_linears};
  if (Mixture::is_in(config, weights, prefix, layer)) {
    mixture_ = std::make_shared<Mixture>(config, weights, prefix);
    return;
  }
  if (!gated_) {
    ffn_up_ = weights.linear(prefix + "ffn_up", {s.feed_forward, s.embedding}, theirs);
  } else if (weights.has(prefix + "ffn_gate.weight")) {
    TransformersLayout of_gate = with_factor(config.factors.ffn_gate, theirs), of_up = theirs;
    if (config.joined_gate) of_gate.trailing_rows = of_up.skipped_rows = s.feed_forward;
    ffn_gate_ = weights.linear(prefix + "ffn_gate", {s.feed_forward, s.embedding}, of_gate);
    ffn_up_ = weights.linear(prefix + "ffn_up", {s.feed_forward, s.embedding}, of_up);
  } else {  // both in one matrix, the gate first
    const int64_t f = s.feed_forward;
    ffn_gate_ = weights.linear(prefix + "ffn_up", {.rows = 2 * f, .columns = s.embedding, .row_range = {0, f}}, theirs);
    ffn_up_ = weights.linear(prefix + "ffn_up", {.rows = 2 * f, .columns = s.embedding, .row_range = {f, f}}, theirs);
  }
  ffn_down_ =
      weights.linear(prefix + "ffn_down", {s.embedding, s.feed_forward}, with_factor(config.factors.ffn_down, theirs));
}

Tensor FeedForward::activated(const Tensor& x) const {
  if (activation_ != Activation::kXielu) return llm::activated(activation_, x);
  const auto number = [&](float value) { return scalar(x.device(), value); };
  const Tensor above = square(x) * number(xielu_.positive);
  const Tensor below = (expm1(minimum(x, number(xielu_.epsilon))) - x) * number(xielu_.negative);
  return where(greater(x, number(0)), above, below) + x * number(xielu_.beta);
}

Tensor FeedForward::operator()(const Tensor& h, const Step& step) const {
  if (mixture_) return (*mixture_)(h);
  const Tensor up = step.noted("ffn_up", (*ffn_up_)(h));  // [T, F]
  if (!gated_) return (*ffn_down_)(step.noted("ffn_activation", activated(up)));
  const Tensor gate = step.noted("ffn_gate", (*ffn_gate_)(h));  // [T, F]
  return (*ffn_down_)(step.noted("ffn_activation", activated(gate) * up));
}

}  // namespace gabbro::llm
