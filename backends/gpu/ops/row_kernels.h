// Choice of the kernel that keeps a row in registers (kernels/rows/row_vectors.h), by the row's length.
#pragma once

#include <cstdint>

#include "backends/gpu/kernel.h"

namespace gabbro::gpu {

struct RowKernel {
  const char* suffix;  // of its name
  int64_t vectors;     // the longest row, in 16-byte vectors
  bool wave;           // one wave per row, else one block
};

inline constexpr int64_t kVectorBytes = 16;

// The kernel with the fewest threads that hold a row: idle threads take registers from other rows. Null if a row is not
// whole 16-byte vectors or is too long. `huge`: whether the op has a kernel for rows of up to 32768 elements.
inline const RowKernel* row_kernel(int64_t columns, DType dtype, uint32_t wave, bool huge) {
  static constexpr RowKernel kWave32 = {"_wave", int64_t{32} * 4, true}, kWave64 = {"_wave", int64_t{64} * 4, true},
                             kSmall = {"_small", int64_t{128} * 4, false},
                             kOneBlock = {"_block", int64_t{256} * 4, false},
                             kWide = {"_wide", int64_t{512} * 4, false}, kHuge = {"_huge", int64_t{1024} * 4, false},
                             kHugeWords = {"_huge", int64_t{1024} * 8, false};
  const auto bytes = static_cast<int64_t>(dtype_bytes(dtype, static_cast<size_t>(columns)));
  if (bytes % kVectorBytes != 0) return nullptr;
  for (const RowKernel* kernel : {wave == 32 ? &kWave32 : &kWave64, &kSmall, &kOneBlock, &kWide}) {
    if (bytes / kVectorBytes <= kernel->vectors) return kernel;
  }
  const RowKernel* largest = dtype == DType::f32 ? &kHugeWords : &kHuge;
  return huge && bytes / kVectorBytes <= largest->vectors ? largest : nullptr;
}

inline bool is_16_byte_aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % kVectorBytes == 0; }

// The grid for `rows` rows.
inline Dim row_grid(const RowKernel& kernel, int64_t rows, const api::Function* function, uint32_t wave) {
  const uint32_t threads = api::block_threads(function);
  return flat_grid(rows * (kernel.wave ? wave : threads), threads);
}

}  // namespace gabbro::gpu
