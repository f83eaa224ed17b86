// Casts of an op's operands while an Autocast lives (src/graph/autocast.h), as torch.autocast: GEMM-like ops (linear,
// matmul, convolutions) are computed in its dtype; sums, exponentials, norms and losses, which need more range or
// precision, in f32. All other ops take any operands.
#pragma once

#include "gabbro/graph/autocast.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

// A factor: f32, f16 and bf16 in the dtype of products; anything else unchanged.
inline Tensor for_product(const Tensor& x) {
  const bool plain = x.defined() && !x.spec().packed && (x.dtype() == DType::f32 || is_half(x.dtype()));
  return plain && autocast_dtype() ? cast(x, *autocast_dtype()) : x;
}

// Operands of sums and exponentials: f16 and bf16 in f32; other dtypes unchanged.
inline Tensor for_sum(const Tensor& x) {
  return x.defined() && is_half(x.dtype()) && autocast_dtype() ? cast(x, DType::f32) : x;
}

}  // namespace gabbro
