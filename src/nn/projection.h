// A weight matrix with an optional bias, as models that are read from files hold it: no module (linear.h has that), and
// nothing of it is trained. Which format the weight has, and how it is packed, is nobody else's business.
#pragma once

#include "src/ops/ops.h"

namespace gabbro::nn {

struct Projection {
  Tensor weight;  // [N, K], any float or block format
  Tensor bias;    // [N] or undefined

  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias); }  // [..., K] -> [..., N]
};

}  // namespace gabbro::nn
