// For ops that walk over strided tensors, or move elements without looking at them.
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "backends/common/primitives.h"
#include "backends/gpu/kernel.h"
#include "kernels/elementwise/strided.h"

namespace gabbro::gpu {

constexpr uint32_t kElementThreads = 256;  // of a block of the kernels that give each thread its elements

// "u32" for i32 and f32: kernels that only move elements are named by their size. `dtype` is a plain one.
inline std::string word_name(DType dtype) { return "u" + std::to_string(dtype_bytes(dtype, 1) * 8); }

inline Axes axes_of(std::span<const abi::TensorView> inputs) {
  static_assert(kMaxAxes == abi::kMaxRank && kMaxOperands <= abi::kMaxStridedInputs);
  const abi::StridedAxes merged = abi::merge_axes(inputs);
  Axes axes = {.rank = merged.rank, .total = merged.total};
  std::ranges::copy(merged.shape, axes.shape);
  for (int i = 0; i < kMaxOperands; ++i) std::ranges::copy(merged.strides[i], axes.strides[i]);
  return axes;
}

}  // namespace gabbro::gpu
