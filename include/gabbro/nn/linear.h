// Products with trained weights.
#pragma once

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

struct LinearOptions {
  int64_t in_features = 0, out_features = 0;
  bool bias = true;
};

// y = x · weightᵀ + bias: [..., K] -> [..., N].
class Linear : public Layer {
 public:
  Linear(const Factory& make, const LinearOptions& options);
  Tensor forward(const Tensor& x) override { return linear(x, weight, bias); }

  Tensor weight;  // [N, K]
  Tensor bias;    // [N], or undefined
};

struct BilinearOptions {
  int64_t in1_features = 0, in2_features = 0, out_features = 0;
  bool bias = true;
};

// y[o] = x1 · weight[o] · x2 + bias[o]: [..., I], [..., J] -> [..., O].
class Bilinear : public Module {
 public:
  Bilinear(const Factory& make, const BilinearOptions& options);
  Tensor operator()(const Tensor& x1, const Tensor& x2) const;

  Tensor weight;  // [O, I, J]
  Tensor bias;    // [O], or undefined
};

// x as it is.
class Identity : public Layer {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
