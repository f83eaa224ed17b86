// Loops over contiguous rows, in vectors.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/common/request.h"
#include "backends/cpu/kernels/elementwise/elements.h"

namespace gabbro::cpu::GABBRO_ISA {

// Rows that a worker takes at a time: about 4096 elements.
inline int64_t row_grain(int64_t columns) { return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, columns)); }

// The first `count` lanes of `v`, and `other` in the rest.
inline F32 only_first(F32 v, int count, float other) {
  return count == kLanes ? v : select(first_mask(count), v, splat(other));
}

// body(i, count, k) for each vector of [0, columns): its first element, its lanes, and the number k of one of four
// independent accumulators.
template <class Body>
void for_vectors(int64_t columns, Body&& body) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= columns; i += 4 * kLanes) {
    body(i, kLanes, 0);
    body(i + kLanes, kLanes, 1);
    body(i + 2 * kLanes, kLanes, 2);
    body(i + 3 * kLanes, kLanes, 3);
  }
  for (int k = 0; i < columns; i += kLanes, ++k) {
    body(i, static_cast<int>(std::min<int64_t>(kLanes, columns - i)), k);
  }
}

// body(begin, count) for each block of [0, columns): sums of blocks are added up, so that the rounding errors of a sum
// grow with the number of blocks and not of elements.
inline constexpr int64_t kSumBlock = 16384;
template <class Body>
void for_sum_blocks(int64_t columns, Body&& body) {
  for (int64_t begin = 0; begin < columns; begin += kSumBlock) body(begin, std::min(kSumBlock, columns - begin));
}

}  // namespace gabbro::cpu::GABBRO_ISA
