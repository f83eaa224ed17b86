// Attention with linear biases (Press et al. 2022, arXiv 2108.12409): a score gets slope · key position, which differs
// from slope · -distance by a number of the row that softmax does not see. The product of query and key makes it: heads
// are longer by elements that hold the slope in queries and the position in keys, so that each kernel of attention has
// the biases.
#pragma once

#include "src/base/round_up.h"
#include "src/models/llm/decoder_config.h"
#include "src/models/weights/tensor_shard.h"

namespace gabbro::llm {

class LinearBiases {
 public:
  // The biases of config.alibi, which is not 0, for these of the model's heads.
  LinearBiases(const DecoderConfig& config, WeightSource& weights, const HeadRange& part);

  // The elements of such a head in the cache, for `head_dimension` of the model: four more, in whole vectors of 16.
  static int64_t dimension(int64_t head_dimension) { return round_up(head_dimension + 4, 16); }

  Tensor with_slopes(const Tensor& q) const;                              // [T, H, D] -> [T, H, D + E]
  Tensor with_positions(const Tensor& k, const Tensor& positions) const;  // [T, G, D], i32 [T] -> [T, G, D + E]
  Tensor padded(const Tensor& v) const;                                   // [T, G, D] -> [T, G, D + E]

 private:
  Tensor slopes_;      // [1, H, E]
  Tensor low_, high_;  // [1, G, E]: what the low and the high part of a position are multiplied by
};

}  // namespace gabbro::llm
