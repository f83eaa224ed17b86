// Attention of several heads (Vaswani et al. 2017), as torch.nn.MultiheadAttention.
#pragma once

#include "gabbro/nn/linear.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

struct MultiheadAttentionOptions {
  int64_t embed_dim = 0, num_heads = 0;
  double dropout = 0;  // of the attention's weights
  bool bias = true;
  bool add_bias_kv = false;    // one more key and value, which are learned
  bool add_zero_attn = false;  // one more, of zeros
  std::optional<int64_t> kdim{}, vdim{};
  bool batch_first = false;  // [B, L, E], else [L, B, E]; or [L, E] without a batch
};

// Masks as PyTorch has them here: bool, true where a key may NOT be seen, or floats that are added to the scores.
struct AttentionMasks {
  Tensor keys{};        // [B, S], or [S] without a batch
  Tensor attention{};   // [L, S] or [B · H, L, S]
  bool causal = false;  // query l sees keys 0 .. l
};

class MultiheadAttention : public Module {
 public:
  MultiheadAttention(const Factory& make, const MultiheadAttentionOptions& options);
  const MultiheadAttentionOptions& options() const { return options_; }
  // num_heads, dropout, add_zero_attn and batch_first count from the next call on; the rest shaped the parameters.
  void set_options(const MultiheadAttentionOptions& options);

  struct Result {
    Tensor output;   // as the queries
    Tensor weights;  // [B, L, S], the mean of the heads; or [B, H, L, S]; undefined where they are not asked for
  };
  enum class Weights { kNone, kMean, kHeads };
  Result operator()(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMasks& masks = {},
                    Weights weights = Weights::kNone);

  Tensor in_proj_weight;                               // [3 · E, E]; or, where keys have another length,
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;  // [E, E], [E, kdim], [E, vdim]
  Tensor in_proj_bias;                                 // [3 · E], or undefined
  Tensor bias_k, bias_v;                               // [1, 1, E], or undefined
  std::shared_ptr<Linear> out_proj;

 private:
  std::vector<Tensor> projected(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor heads(const Tensor& x) const;
  Result attend(const Tensor& query, Tensor key, Tensor value, const AttentionMasks& masks, Weights weights);

  MultiheadAttentionOptions options_;
  std::shared_ptr<Generator> generator_;
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
