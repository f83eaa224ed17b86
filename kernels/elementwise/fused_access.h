// How kernels that are made at run time read and write (backends/gpu/ops/fused_elementwise.cc).
#pragma once

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/fused_elementwise.h"
#include "kernels/gpu/flat_grid.h"

namespace gabbro::gpu::GABBRO_GPU {

// Neighbors that a thread moves together.
template <class T, int count>
struct alignas(sizeof(T) * count) Pack {
  T element[count];
};

template <class T>
GPU_FUNCTION inline T fused_constant(const FusedElementwiseArgs& a, int number) {
  return static_cast<T>(a.constants[number]);
}
template <>
GPU_FUNCTION inline float fused_constant<float>(const FusedElementwiseArgs& a, int number) {
  return bits_to_float(static_cast<u32>(a.constants[number]));
}
template <>
GPU_FUNCTION inline Half fused_constant<Half>(const FusedElementwiseArgs& a, int number) {
  return {static_cast<u16>(a.constants[number])};
}
template <>
GPU_FUNCTION inline BFloat fused_constant<BFloat>(const FusedElementwiseArgs& a, int number) {
  return {static_cast<u16>(a.constants[number])};
}

// Offset of element `at` of a strided input.
GPU_FUNCTION inline i64 fused_offset(const FusedElementwiseArgs& a, int input, i64 at) {
  i64 offset = 0;
#pragma unroll 1
  for (int axis = 0; axis < a.rank - 1; ++axis) {
    // A division of 64 bits takes ten times as long as one of 32.
    const i64 extent = a.shape[axis], rest = a.total <= 0xffffffff
                                                 ? static_cast<i64>(static_cast<u32>(at) / static_cast<u32>(extent))
                                                 : at / extent;
    offset += (at - rest * extent) * a.strides[input][axis];
    at = rest;
  }
  return offset + at * a.strides[input][a.rank - 1];
}

// Elements from `first` on; contiguous ones as one load, which needs an address that is a multiple of the vector's
// size. With a layout known at compile time, the loads of all inputs begin before the first has ended.
template <class T, int count, FusedLayout layout>
GPU_FUNCTION inline Pack<T, count> fused_read(const FusedElementwiseArgs& a, int input, i64 first) {
  const auto* x = static_cast<const T*>(a.in[input]);
  if constexpr (layout == FusedLayout::kAsOutput || layout == FusedLayout::kPacks) {
    const i64 at = layout == FusedLayout::kAsOutput ? first : fused_offset(a, input, first);
    return *reinterpret_cast<const Pack<T, count>*>(x + at);
  } else {
    Pack<T, count> pack;
    if constexpr (layout == FusedLayout::kStrided) {
#pragma unroll
      for (int i = 0; i < count; ++i) pack.element[i] = x[fused_offset(a, input, first + i)];
    } else {
      const T number = x[layout == FusedLayout::kNumber ? 0 : fused_offset(a, input, first)];
#pragma unroll
      for (int i = 0; i < count; ++i) pack.element[i] = number;
    }
    return pack;
  }
}

template <class T, int count>
GPU_FUNCTION inline void fused_write(const FusedElementwiseArgs& a, int output, i64 first, const Pack<T, count>& pack) {
  *reinterpret_cast<Pack<T, count>*>(static_cast<T*>(a.out[output]) + first) = pack;
}

// Steps::run<count>(a, first) for all elements: `count` at a time and the rest one by one. Steps comes from the text
// that is compiled.
template <class Steps, int count>
GPU_FUNCTION inline void fused_elementwise(const FusedElementwiseArgs& a) {
  const i64 first = flat_index() * count;
  if (first + count <= a.total) {
    Steps::template run<count>(a, first);
  } else {
    for (i64 at = first; at < a.total; ++at) Steps::template run<1>(a, at);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
