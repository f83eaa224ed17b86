// Sums of i32 in i64 for reduce.cc: of one row, of rows side by side, and of partial results. They wrap around at 64
// bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/rows/reduce_functions.h"

namespace gabbro::cpu::GABBRO_ISA {

inline int64_t add_wrapped(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

inline void sum_i32_row(const void* row, int64_t stride, int64_t count, void* out) {
  const auto* x = static_cast<const int32_t*>(row);
  // As many running sums as two vectors have lanes, so that the compiler can use vectors.
  int64_t sums[kLanes] = {};
  int64_t i = 0;
  if (stride == 1) {
    for (; i + kLanes <= count; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) sums[j] = add_wrapped(sums[j], x[i + j]);
    }
  }
  for (int j = 0; i < count; ++i, j = (j + 1) % kLanes) sums[j] = add_wrapped(sums[j], x[i * stride]);
  int64_t sum = 0;
  for (const int64_t one : sums) sum = add_wrapped(sum, one);
  *static_cast<int64_t*>(out) = sum;
}

inline void sum_i32_side(const void* rows, int64_t stride, int64_t count, void* out, int64_t width) {
  const auto* x = static_cast<const int32_t*>(rows);
  auto* sums = static_cast<int64_t*>(out);
  std::fill_n(sums, width, 0);
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {  // so that sums are loaded and stored once for four rows
    const int32_t* row = x + i * stride;
    for (int64_t j = 0; j < width; ++j) {
      const int64_t four = int64_t{row[j]} + row[stride + j] + row[2 * stride + j] + row[3 * stride + j];
      sums[j] = add_wrapped(sums[j], four);
    }
  }
  for (; i < count; ++i) {
    for (int64_t j = 0; j < width; ++j) sums[j] = add_wrapped(sums[j], x[i * stride + j]);
  }
}

inline void join_i64_sums(const Part& part, void* out) {
  const auto* results = static_cast<const int64_t*>(part.results);
  auto* sums = static_cast<int64_t*>(out);
  for (int64_t row = 0; row < part.rows; ++row) sums[row] = add_wrapped(sums[row], results[row]);
}

}  // namespace gabbro::cpu::GABBRO_ISA
