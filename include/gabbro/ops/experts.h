// Products with the weights of some of many experts: mixtures of experts (Shazeer et al. 2017).
#pragma once

#include <cstdint>

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

// Token t with the weights of experts ids[t, :], integers [T, U]; negative ones count from the end. x [T, K], or [T, U,
// K] with a row for each of them; weight [E·N, K] of any float or block format, the N rows of an expert together; ->
// [T, U, N] of x's dtype (f32, f16, bf16), computed in f32. Kernels read the weights of these experts alone. Throws
// bad_input
// "[expert_linear] ..." where shapes or dtypes do not fit.
Tensor expert_linear(const Tensor& x, const Tensor& weight, const Tensor& ids, int64_t experts);

}  // namespace gabbro
#pragma GCC visibility pop
