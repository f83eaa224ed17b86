// Layers to whose weights adapters add (LoRA and its relatives), with strengths that the device reads.
#pragma once

#include <memory>
#include <vector>

#include "gabbro/nn/conv.h"
#include "gabbro/nn/linear.h"
#include "gabbro/nn/norm.h"
#include "gabbro/ops/image.h"

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
  bool adds_to(Tensor AdapterDelta::*member) const;  // with_terms() is not `base`

 private:
  std::vector<Term> terms_;
};

// A factory's dtype is what a model computes in: f32, or f16 and bf16 with sums in f32. Layers for f16 and bf16 take
// activations of this dtype, images in the layout of image_layout.h, and are for inference.

// The weight may be in any format: differences are separate products. Weights in another float format are converted.
class AdaptableLinear : public nn::Linear, public Adaptable {
 public:
  AdaptableLinear(const nn::Factory& make, const nn::LinearOptions& options);
  Tensor forward(const Tensor& x) override { return add_terms(nn::Linear::forward(x), x); }
  // y with the differences of all active adapters for x.
  Tensor add_terms(Tensor y, const Tensor& x) const;
  bool is_adapted() const { return !active_terms().empty(); }
};

// The weight of f16 and bf16 is [O, kernel..., C].
class AdaptableConv2d : public nn::Conv2d, public Adaptable {
 public:
  AdaptableConv2d(const nn::Factory& make, const nn::ConvModuleOptions& options);
  Tensor forward(const Tensor& x) override { return convolve(x, {}, {}); }
  // Convolves an image with channels last at twice its sides, each pixel four times.
  Tensor convolve_doubled(const Tensor& x) { return convolve_pixels(x, {.doubled = true}); }
  // With additions, or undefined ones: shift [B, O] to all pixels, residual of the result's shape.
  Tensor convolve(const Tensor& x, const Tensor& shift, const Tensor& residual);

 private:
  Tensor convolve_planes(const Tensor& x);                                  // f32
  Tensor convolve_pixels(const Tensor& x, const ConvNhwcOptions& options);  // f16, bf16; additions, doubled
  bool is_pointwise() const;                                                // one tap for each pixel

  Tensor low_bias_;  // of f16 and bf16 where is_pointwise(); undefined: there is none
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
using AdaptableLayerNorm = AdaptableNorm<nn::LayerNorm>;

// GroupNorm of images in the layout of image_layout.h; parameters are f32.
class AdaptableGroupNorm : public AdaptableNorm<nn::GroupNorm> {
 public:
  using AdaptableNorm<nn::GroupNorm>::AdaptableNorm;
  Tensor forward(const Tensor& x) override;
  Tensor then_silu(const Tensor& x);  // silu(norm(x))

 private:
  Tensor norm_pixels(const Tensor& x, bool silu) const;
};

}  // namespace gabbro::diffusion
