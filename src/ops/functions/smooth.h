// Compositions of ops whose parts have corners where the function itself, or what PyTorch takes for its derivative,
// has none.
#pragma once

#include "src/graph/node.h"

namespace gabbro {

// sqrt(x), whose gradient at 0 is 0 and not infinite: x is a sum of squares or a variance, and has its minimum there.
Tensor sqrt_of_squares(const Tensor& x);

// log(1 + e^x) of f32 or f64, without overflow.
Tensor log_one_plus_exp(const Tensor& x);

}  // namespace gabbro
