// Transformer blocks over an image's pixels, which attend to each other and to a text (Rombach et al. 2022), under the
// names of diffusers' Transformer2DModel.
#pragma once

#include <memory>

#include "src/models/diffusion/attention.h"
#include "src/models/diffusion/resnet_block.h"

namespace gabbro::diffusion {

struct SpatialTransformerOptions {
  int64_t channels = 0, heads = 1, context = 768;
  int64_t layers = 1;
  int64_t groups = 32;
  bool linear_projection = false;  // of the pixels in and out; else convolutions of 1 x 1
};

// out(value · gelu(gate)), where one product makes value and gate (Shazeer 2020): [B, L, C] -> [B, L, C].
class FeedForward : public nn::Module {
 public:
  FeedForward(const nn::Factory& make, int64_t channels);
  Tensor operator()(const Tensor& x) const;

 private:
  std::shared_ptr<nn::Linear> proj_, out_;  // [8C, C], [C, 4C]
};

class TransformerBlock : public nn::Module {
 public:
  TransformerBlock(const nn::Factory& make, const SpatialTransformerOptions& options);
  Tensor operator()(const Tensor& x, TensorQueue& text) const;  // [B, L, C] -> [B, L, C]

  std::shared_ptr<nn::LayerNorm> norm1, norm2, norm3;
  std::shared_ptr<Attention> attn1, attn2;  // of the pixels, and of the text
  std::shared_ptr<FeedForward> ff;
};

class SpatialTransformer : public nn::Module {
 public:
  SpatialTransformer(const nn::Factory& make, const SpatialTransformerOptions& options);
  Tensor operator()(const Tensor& x, const Tensor& context) const;  // [B, C, H, W] -> [B, C, H, W]
  // With keys and values of the text, taken from the front, which append_text() makes of a text [B, S, ...].
  Tensor operator()(const Tensor& x, TensorQueue& text) const;
  void append_text(const Tensor& context, std::vector<Tensor>& text) const;

  std::shared_ptr<AdaptableGroupNorm> norm;
  std::shared_ptr<nn::Layer> proj_in, proj_out;
  std::shared_ptr<ModuleList<TransformerBlock>> transformer_blocks;

 private:
  bool linear_projection_;
};

}  // namespace gabbro::diffusion
