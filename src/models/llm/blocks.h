// Blocks that decoders share: norms, and the feed-forward block, dense or a mixture of experts.
#pragma once

#include <memory>
#include <string>

#include "src/models/llm/decoder_config.h"
#include "src/models/llm/mixture.h"
#include "src/models/llm/step.h"

namespace gabbro::llm {

struct Norm {
  Tensor weight, bias;  // both undefined: there is none
};

// NAME.weight, and the optional NAME.bias of a LayerNorm, each of `length` elements.
Norm load_norm(const DecoderConfig& config, WeightSource& weights, const std::string& name, int64_t length);
Tensor normalized(const DecoderConfig& config, const Norm& norm, const Tensor& x);

class FeedForward {
 public:
  FeedForward(const DecoderConfig& config, WeightSource& weights, const std::string& prefix, int64_t layer);

  Tensor operator()(const Tensor& h, const Step& step) const;  // [T, C] -> [T, C]
  // Slots of experts that are read by need; null: there are none.
  const ExpertSlots* slots() const { return mixture_ != nullptr ? mixture_->slots() : nullptr; }
  const Mixture* mixture() const { return mixture_.get(); }

 private:
  Tensor activated(const Tensor& x) const;

  Activation activation_;
  Xielu xielu_;
  bool gated_;
  std::shared_ptr<nn::Linear> ffn_gate_;    // [F, C]
  std::shared_ptr<nn::Linear> ffn_up_;      // [F, C]
  std::shared_ptr<nn::Linear> ffn_down_;    // [C, F]
  std::shared_ptr<const Mixture> mixture_;  // instead of these three; or null
};

}  // namespace gabbro::llm
