// The vocabulary for matrix cores (kernels/gpu/matrix.h) for hipcc and hiprtc: WMMA on RDNA 3 (gfx11) and RDNA 4
// (gfx12), MFMA on CDNA (gfx908, gfx90a, gfx942, gfx950), and dot products where a target has neither. The instructions
// get `b` as their first operand, so that a lane's sums are all of one row.
#pragma once

#include "kernels/gpu/register_copy.h"

namespace gabbro::gpu::GABBRO_GPU {

#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__) || \
    defined(__gfx9_4_generic__)
#define GABBRO_MFMA
#endif

#if defined(__GFX11__) || defined(__GFX12__) || defined(GABBRO_MFMA)
#define GABBRO_MATRIX_CORES
#endif

using HalfPair = _Float16 __attribute__((ext_vector_type(2)));

// The lane's row is lane() % 16 of a fragment and of an accumulator.
inline constexpr int kRowSlots = 1;
GPU_FUNCTION constexpr int row_slot(int) { return 0; }
GPU_FUNCTION inline u32 row_of(int) { return lane() % 16; }

// Elements of its row that a lane holds: RDNA 3 needs all of them in both 16-lane parts of the wave, as dot products
// do.
#if defined(__GFX12__)
inline constexpr int kFragmentElements = 8;
#elif defined(GABBRO_MFMA)
inline constexpr int kFragmentElements = 4;
#else
inline constexpr int kFragmentElements = 16;
#endif
// The first of them.
GPU_FUNCTION inline u32 first_k() { return kFragmentElements == 16 ? 0 : lane() / 16 * kFragmentElements; }

struct Fragment {
  u32 word[kFragmentElements / 2];
};
using Columns = Fragment;

struct Accumulator {
  static constexpr int kCount = 256 / kWave;
  float value[kCount] = {};
};

#if defined(__GFX11__)
inline constexpr bool kColumnPairs = false;
#else
inline constexpr bool kColumnPairs = true;
#endif
GPU_FUNCTION inline u32 column_of(int i) {
#if defined(__GFX11__)
  return static_cast<u32>(i) * 2 + lane() / 16;
#else
  return lane() / 16 * Accumulator::kCount + static_cast<u32>(i);
#endif
}

GPU_FUNCTION inline float row_max(float x) {
  for (u32 step = 16; step < kWave; step *= 2) x = max_of(x, shuffle_xor(x, step));
  return x;
}
GPU_FUNCTION inline float row_sum(float x) {
  for (u32 step = 16; step < kWave; step *= 2) x += shuffle_xor(x, step);
  return x;
}

GPU_FUNCTION inline u32 pack_f16x2(float x, float y) {
  return __builtin_bit_cast(u32, HalfPair{static_cast<_Float16>(x), static_cast<_Float16>(y)});
}
GPU_FUNCTION inline u32 pack_bfloats(float x, float y) {
  return to_bfloat(x).bits | static_cast<u32>(to_bfloat(y).bits) << 16;
}
template <class T>
GPU_FUNCTION inline u32 pack(float x, float y) {
  return kIsBFloat<T> ? pack_bfloats(x, y) : pack_f16x2(x, y);
}
GPU_FUNCTION inline u32 add_f16x2(u32 a, u32 b) {
  return __builtin_bit_cast(u32, __builtin_bit_cast(HalfPair, a) + __builtin_bit_cast(HalfPair, b));
}
GPU_FUNCTION inline u32 fma_f16x2(u32 a, u32 b, u32 c) {
  return __builtin_bit_cast(u32,
                            __builtin_elementwise_fma(__builtin_bit_cast(HalfPair, a), __builtin_bit_cast(HalfPair, b),
                                                      __builtin_bit_cast(HalfPair, c)));
}
GPU_FUNCTION inline void spread_bytes(u32 word, u32* f16) {
  f16[0] = __builtin_amdgcn_perm(0x64646464, word, 0x04010400);
  f16[1] = __builtin_amdgcn_perm(0x64646464, word, 0x04030402);
}

GPU_FUNCTION inline Fragment load_fragment(const Half* tile, u32 pitch) {
  const Half* from = tile + lane() % 16 * pitch + first_k();
  Fragment f;
  if constexpr (kFragmentElements == 4) {
    const u64 pair = *reinterpret_cast<const u64*>(from);
    f.word[0] = static_cast<u32>(pair);
    f.word[1] = static_cast<u32>(pair >> 32);
  } else {
#pragma unroll
    for (int q = 0; q < kFragmentElements / 8; ++q) {
      const Vec16 vec = load_vec16(from + q * 8);
#pragma unroll
      for (int i = 0; i < 4; ++i) f.word[q * 4 + i] = vec.word[i];
    }
  }
  return f;
}
GPU_FUNCTION inline Columns load_columns(const Half* tile, u32 pitch) { return load_fragment(tile, pitch); }

inline constexpr int kLaneRows = 1, kLaneDepth = kFragmentElements, kDepthLanes = 16 / kFragmentElements;
GPU_FUNCTION inline u32 lane_row(int) { return lane() % 16; }
GPU_FUNCTION inline u32 lane_part() { return kDepthLanes == 1 ? 0 : lane() / 16; }
template <int words>
GPU_FUNCTION inline Fragment fragment_of(const u32 (&rows)[kLaneRows][words], int first) {
  Fragment f;
#pragma unroll
  for (int w = 0; w < kFragmentElements / 2; ++w) f.word[w] = rows[0][first + w];
  return f;
}
template <int words>
GPU_FUNCTION inline Columns columns_of(const u32 (&columns)[kLaneRows][words], int first) {
  return fragment_of(columns, first);
}
inline constexpr bool kLoadsTranspose = false;
GPU_FUNCTION inline void hold_loads() { asm volatile("" ::: "memory"); }
GPU_FUNCTION inline Columns load_transposed(const Half* tile, u32 pitch) {
  const Columns columns = load_columns(tile, pitch);
  hold_loads();
  return columns;
}

#if defined(GABBRO_MATRIX_CORES)
using Sums = float __attribute__((ext_vector_type(Accumulator::kCount)));
template <class T>
GPU_FUNCTION inline Sums product(const Fragment& first, const Fragment& second, const Sums& before) {
  using HalfVector = _Float16 __attribute__((ext_vector_type(kFragmentElements)));
  using BFloatVector = short __attribute__((ext_vector_type(kFragmentElements)));
  if constexpr (kIsBFloat<T>) {
    const auto a = __builtin_bit_cast(BFloatVector, first), b = __builtin_bit_cast(BFloatVector, second);
#if defined(__GFX11__)
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, before);
#elif defined(__GFX12__)
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, before);
#elif defined(__gfx908__)  // eight k, in any order that both factors share
    return __builtin_amdgcn_mfma_f32_16x16x8bf16(
        a.zw, b.zw, __builtin_amdgcn_mfma_f32_16x16x8bf16(a.xy, b.xy, before, 0, 0, 0), 0, 0, 0);
#else
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, before, 0, 0, 0);
#endif
  } else {
    const auto a = __builtin_bit_cast(HalfVector, first), b = __builtin_bit_cast(HalfVector, second);
#if defined(__GFX11__)
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, before);
#elif defined(__GFX12__)
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, before);
#else
    return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, before, 0, 0, 0);
#endif
  }
}
template <class T = Half>
GPU_FUNCTION inline void multiply(const Fragment& a, const Columns& b, Accumulator& sums) {
  const Sums after = product<T>(b, a, __builtin_bit_cast(Sums, sums));
#if defined(__GFX11__) || defined(__GFX12__)
  asm volatile("" ::"v"(after));  // not later than what follows: see hold_loads()
#endif
  sums = __builtin_bit_cast(Accumulator, after);
}
#else
// sum + the dot product of two f16 or bf16 pairs.
template <class T>
GPU_FUNCTION inline float dot2(u32 a, u32 b, float sum);
template <>
GPU_FUNCTION inline float dot2<BFloat>(u32 a, u32 b, float sum) {
  return fma(bits_to_float(a & 0xffff0000), bits_to_float(b & 0xffff0000),
             fma(bits_to_float(a << 16), bits_to_float(b << 16), sum));
}
template <>
GPU_FUNCTION inline float dot2<Half>(u32 a, u32 b, float sum) {
#if defined(__gfx906__) || defined(__gfx1011__) || defined(__gfx1012__) || defined(__gfx1030__) ||  \
    defined(__gfx1031__) || defined(__gfx1032__) || defined(__gfx1033__) || defined(__gfx1034__) || \
    defined(__gfx1035__) || defined(__gfx1036__) || defined(__gfx10_3_generic__)
  return __builtin_amdgcn_fdot2(__builtin_bit_cast(HalfPair, a), __builtin_bit_cast(HalfPair, b), sum, false);
#else
  const auto x = __builtin_bit_cast(HalfPair, a), y = __builtin_bit_cast(HalfPair, b);
  return fma(static_cast<float>(x[1]), static_cast<float>(y[1]),
             fma(static_cast<float>(x[0]), static_cast<float>(y[0]), sum));
#endif
}
template <class T = Half>
GPU_FUNCTION inline void multiply(const Fragment& a, const Columns& b, Accumulator& sums) {
#pragma unroll
  for (int i = 0; i < Accumulator::kCount; ++i) {
    u32 column[kFragmentElements / 2];
#pragma unroll
    for (int w = 0; w < kFragmentElements / 2; ++w) {
      column[w] = b.word[w];
      asm volatile("" : "+v"(column[w]));  // not shuffled earlier than it is used
      column[w] = shuffle(column[w], column_of(i));
    }
#pragma unroll
    for (int w = 0; w < kFragmentElements / 2; ++w) sums.value[i] = dot2<T>(a.word[w], column[w], sums.value[i]);
    asm volatile("" : "+v"(sums.value[i]) : : "memory");
  }
}
#endif

template <class T = Half>
GPU_FUNCTION inline Fragment to_fragment(const Accumulator& sums) {
  constexpr int kPairs = Accumulator::kCount / 2;
  u32 own[kPairs];
#pragma unroll
  for (int i = 0; i < kPairs; ++i) own[i] = pack<T>(sums.value[2 * i], sums.value[2 * i + 1]);
  Fragment f;
  if constexpr (kFragmentElements < 16) {  // the lane has the columns that it shall hold
#pragma unroll
    for (int i = 0; i < kPairs; ++i) f.word[i] = own[i];
  } else {
#pragma unroll
    for (int i = 0; i < kFragmentElements / 2; ++i) {
      f.word[i] = shuffle(own[i % kPairs], lane() % 16 + static_cast<u32>(i / kPairs) * 16);
    }
#if defined(__GFX11__)  // so far columns 0 2 4 ... and then 1 3 5 ...
    Fragment sorted;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const u32 shift = i % 2 * 16;
      sorted.word[i] = (f.word[i / 2] >> shift & 0xffff) | f.word[4 + i / 2] >> shift << 16;
    }
    return sorted;
#endif
  }
  return f;
}

template <int count>
using TileCopy = RegisterCopy<count>;
template <int count, u32 pitch>
using TransposedCopy = RegisterCopy<count, pitch>;

}  // namespace gabbro::gpu::GABBRO_GPU
