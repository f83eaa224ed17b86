// A weight matrix with an optional bias. Which format the weight has, and how it is packed, is nobody else's business.
#pragma once

#include "src/ops/ops.h"

namespace gabbro::nn {

struct Linear {
  Tensor weight;  // [N, K], any float or block format
  Tensor bias;    // [N] or undefined

  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias); }  // [..., K] -> [..., N]
};

}  // namespace gabbro::nn
