#include "src/models/llm/blocks.h"

namespace gabbro::llm {

Norm load_norm(const DecoderConfig& config, WeightSource& weights, const std::string& name, int64_t length) {
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

FeedForward::FeedForward(const DecoderConfig& config, WeightSource& weights, const std::string& prefix)
    : activation_(config.activation), gated_(config.gated) {
  const ModelShape& s = config.shape;
  const TransformersLayout theirs{.transposed = config.transposed_linears};
  if (Mixture::is_in(config, weights, prefix)) {
    mixture_ = std::make_shared<Mixture>(config, weights, prefix);
    return;
  }
  if (!gated_) {
    ffn_up_ = weights.linear(prefix + "ffn_up", {s.feed_forward, s.embedding}, theirs);
  } else if (weights.has(prefix + "ffn_gate.weight")) {
    ffn_gate_ = weights.linear(prefix + "ffn_gate", {s.feed_forward, s.embedding}, theirs);
    ffn_up_ = weights.linear(prefix + "ffn_up", {s.feed_forward, s.embedding}, theirs);
  } else {  // both in one matrix, the gate first
    const int64_t f = s.feed_forward;
    ffn_gate_ = weights.linear(prefix + "ffn_up", {.rows = 2 * f, .columns = s.embedding, .count = f}, theirs);
    ffn_up_ =
        weights.linear(prefix + "ffn_up", {.rows = 2 * f, .columns = s.embedding, .first = f, .count = f}, theirs);
  }
  ffn_down_ = weights.linear(prefix + "ffn_down", {s.embedding, s.feed_forward}, theirs);
}

Tensor FeedForward::operator()(const Tensor& h) const {
  if (mixture_) return (*mixture_)(h);
  const auto f = [&](const Tensor& x) { return activated(activation_, x); };
  return ffn_down_(gated_ ? f(ffn_gate_(h)) * ffn_up_(h) : f(ffn_up_(h)));
}

}  // namespace gabbro::llm
