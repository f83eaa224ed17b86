// Layers to whose weights adapters add (LoRA and its relatives), with strengths that the device reads.
#pragma once

#include <memory>
#include <vector>

#include "gabbro/nn/conv.h"
#include "gabbro/nn/linear.h"
#include "gabbro/nn/norm.h"

namespace gabbro::diffusion {

// The strengths of the adapters of a model. A graph is built for the adapters that are active; their strengths are a
// tensor, so that another strength needs no other plan.
struct AdapterStrengths {
  Tensor values;             // f32 [adapters]
  std::vector<bool> active;  // false: nothing is added, and nothing computed
};

// The difference of an adapter at strength 1: of low rank, or of the weight's shape.
struct AdapterDelta {
  Tensor down, up;  // [R, K] and [N, R] of a matrix; [R, C, h, w] and [O, R, 1, 1] of a convolution; or undefined
  Tensor weight;    // of the weight's shape, or undefined
  Tensor bias;      // of the bias's shape, or undefined
};

// The differences that a layer gets, each by an adapter of these strengths.
class Adaptable {
 public:
  virtual ~Adaptable() = default;
  void add(size_t adapter, std::shared_ptr<const AdapterStrengths> strengths, AdapterDelta delta);
  void remove_adapters() { terms_.clear(); }

 protected:
  struct Term {
    size_t adapter = 0;
    std::shared_ptr<const AdapterStrengths> strengths;
    AdapterDelta delta;

    Tensor scaled(const Tensor& x) const;  // times the strength
  };
  std::vector<const Term*> active_terms() const;
  // The tensor with the differences of all active adapters.
  Tensor with_terms(const Tensor& base, Tensor AdapterDelta::*member) const;

 private:
  std::vector<Term> terms_;
};

// The weight may be in any format: differences are separate products.
class AdaptableLinear : public nn::Linear, public Adaptable {
 public:
  using nn::Linear::Linear;
  Tensor forward(const Tensor& x) override;
};

class AdaptableConv2d : public nn::Conv2d, public Adaptable {
 public:
  using nn::Conv2d::Conv2d;
  Tensor forward(const Tensor& x) override;
};

// Differences of weight and bias.
template <class Norm>
class AdaptableNorm : public Norm, public Adaptable {
 public:
  using Norm::Norm;
  Tensor forward(const Tensor& x) override {
    if (active_terms().empty()) return Norm::forward(x);
    const Tensor own_weight = this->weight, own_bias = this->bias;
    this->weight = with_terms(own_weight, &AdapterDelta::weight);
    this->bias = with_terms(own_bias, &AdapterDelta::bias);
    const Tensor y = Norm::forward(x);
    this->weight = own_weight;
    this->bias = own_bias;
    return y;
  }
};
using AdaptableGroupNorm = AdaptableNorm<nn::GroupNorm>;
using AdaptableLayerNorm = AdaptableNorm<nn::LayerNorm>;

}  // namespace gabbro::diffusion
