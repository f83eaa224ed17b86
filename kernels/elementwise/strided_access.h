// Offsets of the elements of strided operands.
#pragma once

#include "kernels/elementwise/strided.h"
#include "kernels/gpu/flat_grid.h"

namespace gabbro::gpu::GABBRO_GPU {

// Adds what the axes but the slowest, counted by Index, contribute to the offsets; returns the slowest one's index.
template <int count, class Index>
GPU_FUNCTION inline i64 add_offsets(const Axes& axes, Index at, i64* offsets) {
#pragma unroll 1
  for (int axis = 0; axis < axes.rank - 1; ++axis) {
    const Index extent = static_cast<Index>(axes.shape[axis]), rest = at / extent;
    const i64 index = static_cast<i64>(at - rest * extent);
    at = rest;
#pragma unroll
    for (int i = 0; i < count; ++i) offsets[i] += index * axes.strides[i][axis];
  }
  return static_cast<i64>(at);
}

// The offsets of element `at` in the first `count` operands.
template <int count>
GPU_FUNCTION inline void find_offsets(const Axes& axes, i64 at, i64* offsets) {
#pragma unroll
  for (int i = 0; i < count; ++i) offsets[i] = 0;
  // A division of 64 bits takes ten times as long as one of 32.
  const i64 slowest = axes.total <= 0xffffffff ? add_offsets<count>(axes, static_cast<u32>(at), offsets)
                                               : add_offsets<count>(axes, at, offsets);
#pragma unroll
  for (int i = 0; i < count; ++i) offsets[i] += slowest * axes.strides[i][axes.rank - 1];
}

// store(i, load(offsets of element i)) for this thread's elements. Contiguous operands and single numbers are one axis:
// no division, and all loads come before the stores.
template <class T, int operands, class Load, class Store>
GPU_FUNCTION inline void for_elements(const Axes& axes, Load load, Store store) {
  const i64 step = block_size(), first = flat_block() * step * kPerThread + thread_index();
  i64 offsets[operands];
  if (axes.rank > 1) {
#pragma unroll 1
    for (int n = 0; n < kPerThread && first + n * step < axes.total; ++n) {
      find_offsets<operands>(axes, first + n * step, offsets);
      store(first + n * step, load(offsets));
    }
    return;
  }
  T results[kPerThread];
#pragma unroll
  for (int n = 0; n < kPerThread; ++n) {
    const i64 at = first + n * step;
    if (at >= axes.total) continue;
#pragma unroll
    for (int i = 0; i < operands; ++i) offsets[i] = at * axes.strides[i][0];
    results[n] = load(offsets);
  }
#pragma unroll
  for (int n = 0; n < kPerThread; ++n) {
    if (first + n * step < axes.total) store(first + n * step, results[n]);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
