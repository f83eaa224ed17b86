// Keys of `sort` and `topk`: numbers in the order of values, and of places where values are equal.
#pragma once

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr u64 kNoKey = ~u64{0};

// Unsigned numbers in the order of the values; -0 and 0 are equal, all NaNs are, behind infinity.
GPU_FUNCTION inline u32 order_of(i32 x) { return static_cast<u32>(x) ^ 0x80000000u; }
GPU_FUNCTION inline u32 order_of(float x) {
  if (x != x) return 0xffffffffu;
  const u32 bits = x == 0 ? 0 : float_to_bits(x);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
GPU_FUNCTION inline u32 order_of(Half x) { return order_of(to_float(x)); }
GPU_FUNCTION inline u32 order_of(BFloat x) { return order_of(to_float(x)); }

template <class T>
GPU_FUNCTION inline u64 key_of(T value, i64 place, u32 flip) {
  return static_cast<u64>(order_of(value) ^ flip) << 32 | static_cast<u64>(place);
}
GPU_FUNCTION inline u32 place_of(u64 key) { return static_cast<u32>(key); }

}  // namespace gabbro::gpu::GABBRO_GPU
