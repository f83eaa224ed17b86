// Layers of one input as one product.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/models/diffusion/adaptable.h"

namespace gabbro::diffusion {

// Computes layers of one input, which keep their names and their adapters. Plain weights of f16 and bf16 are stored as
// one matrix, so that there is one product; other weights are multiplied layer by layer.
class JointLinear {
 public:
  JointLinear() = default;
  explicit JointLinear(std::vector<std::shared_ptr<AdaptableLinear>> layers);

  // x [..., K] to the result of each layer, [..., N_i].
  std::vector<Tensor> operator()(const Tensor& x) const { return parts(products(x)); }
  // In two steps, for results that are used again: tensors with separate memory, then views of them.
  std::vector<Tensor> products(const Tensor& x) const;
  size_t product_count() const;
  std::vector<Tensor> parts(std::span<const Tensor> products) const;
  const Tensor& weight() const { return weight_; }  // of all layers; undefined: each has its own

 private:
  bool is_adapted() const;

  std::vector<std::shared_ptr<AdaptableLinear>> layers_;
  Tensor weight_, bias_;  // [N_0 + N_1 + ..., K] and [N_0 + N_1 + ...]; undefined: layer by layer
};

// Tensors that are computed before the layers that take them, in the order of these layers.
class TensorQueue {
 public:
  TensorQueue() = default;
  explicit TensorQueue(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}
  std::span<const Tensor> take(size_t count);
  bool is_empty() const { return next_ == tensors_.size(); }

 private:
  std::vector<Tensor> tensors_;
  size_t next_ = 0;
};

}  // namespace gabbro::diffusion
