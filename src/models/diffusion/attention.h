// Attention of diffusion models over tokens or pixels, under the names of diffusers.
#pragma once

#include <memory>

#include "gabbro/nn/linear.h"
#include "gabbro/nn/norm.h"
#include "src/models/diffusion/adaptable.h"
#include "src/models/diffusion/module_list.h"

namespace gabbro::diffusion {

struct AttentionOptions {
  int64_t width = 0;    // C of the queries
  int64_t context = 0;  // C of what keys and values are made of
  int64_t heads = 1;    // of C / heads elements
  bool bias = false;    // of q, k and v
};

// softmax(q·kᵀ / sqrt(D))·v: x [B, L, C], context [B, S, ...] -> [B, L, C].
class Attention : public nn::Module {
 public:
  Attention(const nn::Factory& make, const AttentionOptions& options);
  Tensor operator()(const Tensor& x, const Tensor& context) const;

  std::shared_ptr<nn::Linear> to_q, to_k, to_v;
  std::shared_ptr<ModuleList<nn::Linear>> to_out;

 private:
  Tensor heads(const Tensor& x) const;  // [B, L, C] -> [B, H, L, D]

  int64_t heads_;
};

// Attention of an image's pixels with one head, in the middle of an autoencoder: [B, C, H, W] -> [B, C, H, W].
class PixelAttention : public nn::Module {
 public:
  PixelAttention(const nn::Factory& make, int64_t channels, int64_t groups, double eps);
  Tensor operator()(const Tensor& x) const;
  // The layer is add(x, attention of heads(x)): for callers that attend in steps.
  struct Heads {
    Tensor q, k, v;  // [B, 1, H · W, C]
  };
  Heads heads(const Tensor& x) const;
  Tensor add(const Tensor& x, const Tensor& mixed) const;  // mixed [B, 1, H · W, C]

  std::shared_ptr<AdaptableGroupNorm> group_norm;
  std::shared_ptr<nn::Linear> to_q, to_k, to_v;
  std::shared_ptr<ModuleList<nn::Linear>> to_out;
};

}  // namespace gabbro::diffusion
