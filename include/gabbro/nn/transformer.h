// Layers of a transformer (Vaswani et al. 2017), named as in torch.nn.
#pragma once

#include <functional>

#include "gabbro/nn/attention.h"
#include "gabbro/nn/dropout.h"
#include "gabbro/nn/norm.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

struct TransformerLayerOptions {
  int64_t d_model = 0, nhead = 0, dim_feedforward = 2048;
  double dropout = 0.1;
  std::function<Tensor(const Tensor&)> activation = [](const Tensor& x) { return relu(x); };
  double layer_norm_eps = 1e-5;
  bool batch_first = false;  // [B, L, E], else [L, B, E]
  bool norm_first = false;   // normalizes what goes into a part, not what comes out
  bool bias = true;
};

// Attention within x, and a network of two layers for each token; both are added to what goes in.
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(const Factory& make, const TransformerLayerOptions& options);
  const TransformerLayerOptions& options() const { return options_; }
  void set_options(const TransformerLayerOptions& options) { options_ = options; }  // activation and norm_first
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {});

  std::shared_ptr<MultiheadAttention> self_attn;
  std::shared_ptr<Linear> linear1, linear2;
  std::shared_ptr<LayerNorm> norm1, norm2;

 private:
  TransformerLayerOptions options_;
  std::shared_ptr<Dropout> dropout_, dropout1_, dropout2_;
};

// `count` layers under "layers.0" and so on, and with `norm` a last layer norm.
class TransformerEncoder : public Module {
 public:
  TransformerEncoder(const Factory& make, const TransformerLayerOptions& options, int64_t count, bool norm = false);
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {});

  std::vector<std::shared_ptr<TransformerEncoderLayer>> layers;
  std::shared_ptr<LayerNorm> norm;  // or null
};

// An encoder layer with attention to `memory`, the output of an encoder, between its two blocks.
class TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(const Factory& make, const TransformerLayerOptions& options);
  const TransformerLayerOptions& options() const { return options_; }
  void set_options(const TransformerLayerOptions& options) { options_ = options; }  // activation and norm_first
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionMasks& masks = {},
                    const AttentionMasks& memory_masks = {});

  std::shared_ptr<MultiheadAttention> self_attn, multihead_attn;
  std::shared_ptr<Linear> linear1, linear2;
  std::shared_ptr<LayerNorm> norm1, norm2, norm3;

 private:
  TransformerLayerOptions options_;
  std::shared_ptr<Dropout> dropout_, dropout1_, dropout2_, dropout3_;
};

class TransformerDecoder : public Module {
 public:
  TransformerDecoder(const Factory& make, const TransformerLayerOptions& options, int64_t count, bool norm = false);
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionMasks& masks = {},
                    const AttentionMasks& memory_masks = {});

  std::vector<std::shared_ptr<TransformerDecoderLayer>> layers;
  std::shared_ptr<LayerNorm> norm;  // or null
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
