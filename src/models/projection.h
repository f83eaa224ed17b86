// A weight matrix with an optional bias, of a model that is read from a file: not a module (linear.h has that), and not
// trained. The weight's format and packing are private to it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "src/ops/ops.h"

namespace gabbro::nn {

// A product of low rank that an adapter adds (LoRA, arXiv 2106.09685): scale · (x · aᵀ) · bᵀ.
struct LowRank {
  Tensor a;                            // [R, K]
  Tensor b;                            // [N, R]
  std::shared_ptr<const float> scale;  // 0: nothing is added, and nothing computed
};

struct Projection {
  Tensor weight;  // [N, K], any float or block format
  Tensor bias;    // [N] or undefined
  Tensor order;   // i32 [K]: the element of x for each column of `weight`; undefined: in order
  std::vector<LowRank> adapters{};
  std::function<void(const Tensor& x)> observe{};  // gets each input; empty: none does

  Tensor operator()(const Tensor& x) const {  // [..., K] -> [..., N]
    if (observe) observe(x);
    Tensor y = linear(order.defined() ? take(x, order, -1) : x, weight, bias);
    for (const LowRank& one : adapters) {
      if (*one.scale == 0) continue;
      const Tensor inner = linear(x, one.a) * scalar(x.device(), *one.scale);  // [..., R]
      y = y + linear(inner, one.b);
    }
    return y;
  }
};

}  // namespace gabbro::nn
