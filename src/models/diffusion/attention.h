// Attention of diffusion models over tokens or pixels, under the names of diffusers.
#pragma once

#include <memory>

#include "gabbro/nn/linear.h"
#include "gabbro/nn/norm.h"
#include "src/models/diffusion/joint_linear.h"
#include "src/models/diffusion/module_list.h"

namespace gabbro::diffusion {

struct AttentionOptions {
  int64_t width = 0;    // C of the queries
  int64_t context = 0;  // C of the text that keys and values are made of; 0: of the queries' x
  int64_t heads = 1;    // of C / heads elements
  bool bias = false;    // of q, k and v
};

// softmax(q·kᵀ / sqrt(D))·v: x [B, L, C] -> [B, L, C].
class Attention : public nn::Module {
 public:
  Attention(const nn::Factory& make, const AttentionOptions& options);
  Tensor operator()(const Tensor& x) const;  // to x
  // To a text: with its keys and values, taken from the front.
  Tensor operator()(const Tensor& x, TensorQueue& text) const;
  // Appends the keys and values of a text [B, S, ...], which depend on no x.
  void append_text(const Tensor& context, std::vector<Tensor>& text) const;
  const Tensor& joint_weight() const { return joint_.weight(); }

  std::shared_ptr<AdaptableLinear> to_q, to_k, to_v;
  std::shared_ptr<ModuleList<nn::Linear>> to_out;

 private:
  Tensor heads(const Tensor& x) const;                                     // [B, L, C] -> [B, H, L, D]
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v) const;  // [B, L, C], [B, S, C], [B, S, C]

  int64_t heads_;
  JointLinear joint_;  // q, k and v of one x, or k and v of a text
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
  std::shared_ptr<AdaptableLinear> to_q, to_k, to_v;
  std::shared_ptr<ModuleList<nn::Linear>> to_out;
};

}  // namespace gabbro::diffusion
