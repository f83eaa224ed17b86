// Helpers of ops whose operands meet in one dtype.
#pragma once

#include <utility>

#include "gabbro/ops/promotion.h"

namespace gabbro {

// The dtype in which kernels compute with it: itself, or i32 for bool and small integers.
constexpr DType as_computed(DType dtype) { return is_floating(dtype) || dtype == DType::i64 ? dtype : kDefaultInteger; }

// Both in the dtype in which they meet. Throws bad_input "[op] ..." for block formats and undefined tensors.
std::pair<Tensor, Tensor> promoted(const char* op, const Tensor& a, const Tensor& b);

}  // namespace gabbro
