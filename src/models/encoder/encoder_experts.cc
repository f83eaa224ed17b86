#include "src/models/encoder/encoder_experts.h"

#include "gabbro/ops/experts.h"

namespace gabbro::encoder {

EncoderExperts::EncoderExperts(const EncoderConfig& config, WeightSource& weights, const std::string& prefix)
    : activation_(config.activation), experts_(config.shape.experts), used_(config.shape.experts_used) {
  const int64_t c = config.shape.embedding, f = config.shape.feed_forward;
  ffn_gate_inp_ = weights.tensor(prefix + "ffn_gate_inp.weight", {experts_, c});
  ffn_up_exps_ =
      weights.experts(prefix + "ffn_up_exps.weight", {.experts = experts_, .rows = f, .columns = c, .used = used_})
          .matrix;
  ffn_down_exps_ = weights
                       .experts(prefix + "ffn_down_exps.weight",
                                {.experts = experts_, .rows = c, .columns = f, .used = used_, .transposed = true})
                       .matrix;
  if (config.experts_bias) ffn_exps_b_ = weights.vector(prefix + "ffn_exps_b.weight", c);
}

Tensor EncoderExperts::operator()(const Tensor& h) const {
  const TopK best = topk(softmax(linear(h, ffn_gate_inp_)), used_);          // [T, U]
  const Tensor up = expert_linear(h, ffn_up_exps_, best.indices, experts_);  // [T, U, F]
  const Tensor each =
      expert_linear(llm::activated(activation_, up), ffn_down_exps_, best.indices, experts_);  // [T, U, C]
  const Tensor y = sum(each * reshape(best.values, Shape{h.shape()[0], used_, 1}), 1);         // [T, C]
  return ffn_exps_b_.defined() ? y + ffn_exps_b_ : y;
}

}  // namespace gabbro::encoder
