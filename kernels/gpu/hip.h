// The vocabulary for hipcc and hiprtc.
#pragma once

#if !defined(__HIPCC_RTC__)
#include <hip/hip_runtime.h>
#endif

#include "kernels/gpu/compiled.h"

#define GPU_KERNEL(name, threads, Args, ...)                                    \
  extern "C" __global__ __launch_bounds__(threads) void name(const Args args) { \
    gabbro::gpu::GABBRO_GPU::__VA_ARGS__(args);                                 \
  }
#define GPU_MEMORY_KERNEL(name, threads, Memory, Args, ...) GPU_KERNEL(name, threads, Args, __VA_ARGS__)
#define GPU_EARLY_MEMORY_KERNEL GPU_MEMORY_KERNEL
#define GPU_EARLY_BLOCKS_KERNEL(name, threads, blocks, ...) GPU_MEMORY_KERNEL(name, threads, __VA_ARGS__)
#define GPU_EARLY_KERNEL GPU_KERNEL  // a launch begins when the one ahead of it has ended
#define GPU_LATE_KERNEL GPU_KERNEL

namespace gabbro::gpu::GABBRO_GPU {

// GCN and CDNA (gfx9) have waves of 64; RDNA is compiled for 32. The host's pass sees neither, and runs nothing.
#if defined(__GFX9__)
inline constexpr u32 kWave = 64;
#else
inline constexpr u32 kWave = 32;
#endif

// Whether LLVM loads so far ahead that a lane's 256 registers do not hold it all, as it does for these targets alone.
#if defined(__gfx906__) || defined(__gfx9_generic__)
inline constexpr bool kFewRegisters = true;
#else
inline constexpr bool kFewRegisters = false;
#endif

template <class Memory>
GPU_FUNCTION inline Memory& block_memory() {
  GPU_SHARED(Memory, memory, 1);
  return memory[0];
}

GPU_FUNCTION inline void wait_for_previous() {}
GPU_FUNCTION inline void prefetch(const void*) {}
GPU_FUNCTION inline Vec16 load_streamed(const void* p) { return *static_cast<const Vec16*>(p); }

// A value that may be about to change, for a guess.
GPU_FUNCTION inline i32 peek(const i32* p) { return *const_cast<const volatile i32*>(p); }

// Waits until the wave's stores are in the L2 cache. A barrier alone need not: behind it another wave of the block sees
// them, but its release does not wait for them (llvm/llvm-project#161638).
GPU_FUNCTION inline void wait_for_stores() {
#if defined(__GFX12__)
  asm volatile("s_wait_storecnt 0x0" ::: "memory");
#elif defined(__GFX10__) || defined(__GFX11__)
  asm volatile("s_waitcnt_vscnt null, 0x0" ::: "memory");
#elif defined(__GFX9__)
  asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
#endif
}
// One wave releases for the block, since on gfx942 and gfx950 a release writes an L2 cache back.
GPU_FUNCTION inline void release_block() {
  wait_for_stores();
  barrier();
  if (threadIdx.x < kWave) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
}
// The barrier that follows acquires for the other waves: of the block's L0 caches, where it has two.
GPU_FUNCTION inline void acquire_for_block() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
GPU_FUNCTION inline void acquire() {}
// Relaxed loads of agent scope. A volatile one is of system scope, which on gfx942 and gfx12 goes past the L2 cache.
GPU_FUNCTION inline u32 load_shared_result(const u32* p) {
  return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
GPU_FUNCTION inline float load_shared_result(const float* p) {
  return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
GPU_FUNCTION inline FloatPair load_shared_result(const FloatPair* p) {
  return __builtin_bit_cast(
      FloatPair, __hip_atomic_load(reinterpret_cast<const u64*>(p), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT));
}

template <class T>
GPU_FUNCTION inline T shuffle_xor(T value, u32 mask) {
  return __shfl_xor(value, static_cast<int>(mask), static_cast<int>(kWave));
}
template <class T>
GPU_FUNCTION inline T shuffle(T value, u32 lane) {
  return __shfl(value, static_cast<int>(lane), static_cast<int>(kWave));
}
// Whether it is so for a lane of the wave.
GPU_FUNCTION inline bool wave_any(bool is) { return __any(is) != 0; }

// sum + the dot product of four signed bytes each.
GPU_FUNCTION inline i32 dot4(i32 a, i32 b, i32 sum) {
#if defined(__GFX11__) || defined(__GFX12__)
  return __builtin_amdgcn_sudot4(true, a, true, b, sum, false);
#elif !(defined(__GFX9__) || defined(__GFX10__)) || defined(__gfx900__) || defined(__gfx902__) ||     \
    defined(__gfx904__) || defined(__gfx909__) || defined(__gfx90c__) || defined(__gfx9_generic__) || \
    defined(__gfx1010__) || defined(__gfx1013__) || defined(__gfx10_1_generic__)  // without the instruction
  for (int i = 0; i < 32; i += 8) sum += static_cast<i8>(a >> i) * static_cast<i8>(b >> i);
  return sum;
#else
  return __builtin_amdgcn_sdot4(a, b, sum, false);
#endif
}

// Four of the eight bytes of `low` and `high`; each byte of `indices` (0 to 7) names one.
GPU_FUNCTION inline u32 select_bytes(u32 low, u32 high, u32 indices) {
  return __builtin_amdgcn_perm(high, low, indices);
}

GPU_FUNCTION inline float bits_to_float(u32 bits) { return __builtin_bit_cast(float, bits); }
GPU_FUNCTION inline u32 float_to_bits(float x) { return __builtin_bit_cast(u32, x); }
GPU_FUNCTION inline float to_float(Half x) { return static_cast<float>(__builtin_bit_cast(_Float16, x.bits)); }
GPU_FUNCTION inline Half to_half(float x) { return {__builtin_bit_cast(u16, static_cast<_Float16>(x))}; }
GPU_FUNCTION inline i32 round_to_int(float x) { return static_cast<i32>(__builtin_rintf(x)); }  // ties to even

GPU_FUNCTION inline float quick_reciprocal(float x) { return __builtin_amdgcn_rcpf(x); }
GPU_FUNCTION inline float quick_max(float a, float b) { return __builtin_fmaxf(a, b); }
GPU_FUNCTION inline float quick_exp2(float x) { return __builtin_amdgcn_exp2f(x); }

// The rounded product: it is not contracted with an addition that follows.
GPU_FUNCTION inline float multiply(float a, float b) {
#pragma clang fp contract(off)
  return a * b;
}

// ::logf is the instruction's log2 times ln 2, off by up to 1.5 units in the last place; this one by less than 1. With
// x = 2^k·m, m in [√½, √2), f = m - 1 and s = f/(2 + f): log m = 2·artanh(s) = f - f²/2 + s·(f²/2 + R(s²)).
GPU_FUNCTION inline float log(float x) {
  if (!(x > 0)) return x == 0 ? -__builtin_inff() : __builtin_nanf("");
  if (x == __builtin_inff()) return x;
  float k = 0;
  if (x < 1.17549435e-38f) {  // subnormal
    x *= 33554432;            // 2^25
    k = -25;
  }
  constexpr u32 kRootHalf = 0x3f3504f3;
  const u32 bits = float_to_bits(x) - kRootHalf;
  k += static_cast<float>(static_cast<i32>(bits) >> 23);
  const float f = bits_to_float((bits & 0x7fffff) + kRootHalf) - 1;
  const float s = f / (2 + f), z = s * s, half_square = 0.5f * f * f;
  const float r =
      z * (2.0f / 3 + z * (2.0f / 5 + z * (2.0f / 7 + z * (2.0f / 9))));  // z ≤ 0.03: the next is 2^-28 of it
  // ln 2 in two parts, the first with few enough bits that k times it is exact.
  constexpr float kHigh = 0x1.62e3p-1f, kLow = 0x1.2fefa2p-17f;
  return k * kHigh + (f - (half_square - (s * (half_square + r) + k * kLow)));
}

}  // namespace gabbro::gpu::GABBRO_GPU
