// What an op does with its operands while an Autocast lives (src/graph/autocast.h), as torch.autocast has it: products
// (linear, matmul, convolutions) are computed in its dtype, whose range or precision sums, exponentials, norms and
// losses do not trust. All other ops take what comes.
#pragma once

#include "src/graph/autocast.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

// A factor: f32, f16 and bf16 in the dtype of products; anything else as it is.
inline Tensor for_product(const Tensor& x) {
  const bool plain = x.defined() && !x.spec().packed && (x.dtype() == DType::f32 || is_half(x.dtype()));
  return plain && autocast_dtype() ? cast(x, *autocast_dtype()) : x;
}

// What is summed up or exponentiated: f16 and bf16 in f32; anything else as it is.
inline Tensor for_sum(const Tensor& x) {
  return x.defined() && is_half(x.dtype()) && autocast_dtype() ? cast(x, DType::f32) : x;
}

}  // namespace gabbro
