// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): the cache has one vector a token, from which all heads
// make keys and values. It stays unchanged: the matrices that would make keys and values of it are applied to the
// queries and to the mixed vectors instead (section 2.1.2), so that attention has one KV head.
#pragma once

#include "src/models/llm/self_attention.h"

namespace gabbro::llm {

struct LatentSizes {
  int64_t q_rank = 0;                  // of the queries' factors; 0: one matrix
  int64_t rank = 0;                    // of a latent
  int64_t unrotated = 0, rotated = 0;  // elements of a head's query and key
  int64_t value = 0;                   // of a head's value
};

class LatentAttention : public TokenMixer {
 public:
  LatentAttention(const DecoderConfig& config, const LatentSizes& sizes, Rope rope, WeightSource& weights,
                  const std::string& prefix);

  nn::CacheLayer cache() const override;
  bool takes_copies() const override { return true; }
  Tensor operator()(const Tensor& h, const MixerStep& at) const override;

 private:
  Tensor by_head(const Tensor& x, const Tensor& matrices) const;

  DecoderConfig config_;
  LatentSizes sizes_;
  IndexRange heads_;  // of the model's; all of them where the weights are whole
  Rope rope_;
  // Fields are named as the tensors of GGUF files.
  std::shared_ptr<nn::Linear> attn_q_;         // [H·(N + R), C], or of the two factors
  std::shared_ptr<nn::Linear> attn_q_a_;       // [Q, C]
  Norm attn_q_a_norm_;                         // [Q]
  std::shared_ptr<nn::Linear> attn_q_b_;       // [H·(N + R), Q]
  std::shared_ptr<nn::Linear> attn_kv_a_mqa_;  // [rank + R, C]
  Norm attn_kv_a_norm_;                        // [rank]
  Tensor attn_k_b_;                            // [H·rank, N]
  Tensor attn_v_b_;                            // [H·V, rank]
  std::shared_ptr<nn::Linear> attn_output_;    // [C, H·V]
};

}  // namespace gabbro::llm
