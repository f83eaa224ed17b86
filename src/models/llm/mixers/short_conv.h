// The gated short convolution of LFM 2 (Liquid AI, arXiv 2511.23404): the cache has the last inputs of the convolution.
#pragma once

#include "src/models/llm/blocks.h"
#include "src/models/llm/token_mixer.h"

namespace gabbro::llm {

class ShortConv : public TokenMixer {
 public:
  ShortConv(const DecoderConfig& config, int64_t taps, WeightSource& weights, const std::string& prefix);

  nn::CacheLayer cache() const override;
  Tensor operator()(const Tensor& h, const MixerStep& at) const override;

 private:
  int64_t channels_, taps_;               // this device's channels
  std::shared_ptr<nn::Linear> in_proj_;   // [3·C, width of the stream]
  Tensor conv_;                           // [C, K]
  Tensor conv_b_;                         // [C] or undefined
  std::shared_ptr<nn::Linear> out_proj_;  // [width of the stream, C]
};

}  // namespace gabbro::llm
