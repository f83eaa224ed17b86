// A weight matrix with an optional bias, of a model that is read from a file: not a module (linear.h has that), and not
// trained. The weight's format and packing are private to it.
#pragma once

#include "src/ops/ops.h"

namespace gabbro::nn {

struct Projection {
  Tensor weight;  // [N, K], any float or block format
  Tensor bias;    // [N] or undefined
  Tensor order;   // i32 [K]: the element of x for each column of `weight`; undefined: in order

  Tensor operator()(const Tensor& x) const {  // [..., K] -> [..., N]
    return linear(order.defined() ? take(x, order, -1) : x, weight, bias);
  }
};

}  // namespace gabbro::nn
