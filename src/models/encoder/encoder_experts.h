// A mixture of experts in the place of a feed-forward block, as Nomic's second encoder has it: the experts that a
// softmax over all of them likes best, each up, activation, down, weighted by it, and one bias after their sum.
#pragma once

#include <string>

#include "src/models/encoder/encoder_config.h"

namespace gabbro::encoder {

class EncoderExperts {
 public:
  EncoderExperts(const EncoderConfig& config, WeightSource& weights, const std::string& prefix);

  Tensor operator()(const Tensor& h) const;  // [T, C] -> [T, C]

 private:
  Activation activation_;
  int64_t experts_, used_;
  Tensor ffn_gate_inp_;   // f32 [E, C]
  Tensor ffn_up_exps_;    // [E·F, C]
  Tensor ffn_down_exps_;  // [E·C, F]
  Tensor ffn_exps_b_;     // [C], or undefined
};

}  // namespace gabbro::encoder
