// Attention over keys and values of a cache, as most families have it.
#pragma once

#include <optional>

#include "src/models/llm/blocks.h"
#include "src/models/llm/linear_biases.h"
#include "src/models/llm/token_mixer.h"
#include "src/models/weights/tensor_shard.h"

namespace gabbro::llm {

class SelfAttention : public TokenMixer {
 public:
  // `rope` is for the kinds of layers that rotate, or undefined.
  SelfAttention(const DecoderConfig& config, const LayerKind& kind, Rope rope, WeightSource& weights,
                const std::string& prefix);

  nn::CacheLayer cache() const override;
  bool takes_copies() const override { return true; }
  Tensor operator()(const Tensor& h, const MixerStep& at) const override;

 private:
  void load_qk_norms(WeightSource& weights, const std::string& prefix);
  void normalize_over_devices(Tensor& q, Tensor& k, const Tensor& v) const;
  Tensor heads(const Tensor& x) const;
  Tensor with_norm(const Tensor& x, const Norm& norm) const;
  Tensor tempered(const Tensor& q, const Tensor& positions) const;

  DecoderConfig config_;
  LayerKind kind_;
  HeadRange part_;                      // of the model's heads; all of them where the weights are whole
  const TensorShard* shard_ = nullptr;  // null: they are
  Rope rope_;
  // Fields are named as the tensors of GGUF files: blk.N.attn_q.weight and so on.
  std::shared_ptr<nn::Linear> attn_q_;       // [H·D, C]
  std::shared_ptr<nn::Linear> attn_k_;       // [G·D, C]
  std::shared_ptr<nn::Linear> attn_v_;       // [G·D, C]
  Norm attn_q_norm_;                         // [D], [H·D] or [H, D]
  Norm attn_k_norm_;                         // [D], [G·D] or [G, D]
  Tensor ones_;                              // [D], for norms whose weight is not [D]
  Tensor attn_sinks_;                        // [H] or undefined
  std::shared_ptr<nn::Linear> attn_output_;  // [C, H·D]
  std::optional<LinearBiases> biases_;
};

}  // namespace gabbro::llm
