// The vocabulary of simd.h for AVX-512 (F, BW, DQ, VL, VNNI): a vector is one register.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backends/cpu/simd/transpose_x86.h"

namespace gabbro::cpu::GABBRO_ISA {

struct F32 {
  __m512 v;
};
struct I32 {
  __m512i v;
};
struct Bytes {
  __m512i v;
};
struct Words {
  __m512i v;
};
struct Pair {
  __m512i v;
};
struct Mask {
  __mmask16 m;
};

// Register budget of 32: adjacent vectors of weights, and the number of sums of f32 and of 16-bit products that meet
// them (kernels/product_tile.h, linear_plain.cc, linear_many.cc).
inline constexpr int kTileVectors = 2;
inline constexpr int kFloatTokens = 12;
inline constexpr int kMatrixRows = 12;
inline constexpr int kWordSums = 12;
// Depthwise convolutions: rows of sums, and the taps that meet them (kernels/depthwise_tile.h).
inline constexpr int kDepthwiseRows = 8;
inline constexpr int kDepthwiseTaps = 7;

inline constexpr bool kMasksLanes = true;  // zero_unless() costs no more than a load

// Prefetch distance of weights, in bytes: block formats (best of 1 to 6 KB on Zen 4), and plain elements, whose panels
// are interleaved (on Zen 5 eight without a prefetch read 8 % more than four with one).
inline constexpr int64_t kPrefetchCodes = 2048;
inline constexpr int64_t kPrefetchElements = 0;
inline constexpr int kFewPanels = 8;

inline F32 zero_f32() { return {_mm512_setzero_ps()}; }
inline F32 splat(float x) { return {_mm512_set1_ps(x)}; }
inline F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
// But once: to g++ a vector of a few uses is an operand in memory of each (a depthwise 3 × 3 takes 1.4 times as long).
inline F32 load_once(const float* p) {
  F32 a = load(p);
  asm("" : "+v"(a.v));
  return a;
}
// Elements 0, 2, ... 30 of 32, and those between.
inline F32 load_even(const float* p) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return {_mm512_permutex2var_ps(_mm512_loadu_ps(p), even, _mm512_loadu_ps(p + 16))};
}
inline F32 load_odd(const float* p) {
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return {_mm512_permutex2var_ps(_mm512_loadu_ps(p), odd, _mm512_loadu_ps(p + 16))};
}
inline void store(float* p, F32 a) { _mm512_storeu_ps(p, a.v); }
inline __mmask16 first_lanes(int count) { return static_cast<__mmask16>((1u << count) - 1); }
// The first `count` (0 to 16) lanes; the others are zero, or left alone in memory.
inline F32 load_first(const float* p, int count) { return {_mm512_maskz_loadu_ps(first_lanes(count), p)}; }
inline void store_first(float* p, F32 a, int count) { _mm512_mask_storeu_ps(p, first_lanes(count), a.v); }
inline F32 half_to_float(__m256i words) { return {_mm512_cvtph_ps(words)}; }
inline __m256i float_to_half(F32 a) { return _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline F32 bfloat_to_float(__m256i words) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16))};
}
// To nearest even; a NaN stays one, made quiet: nothing is added to it that could carry into its exponent.
inline __m256i float_to_bfloat(F32 a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  const __mmask16 is_odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __m512i more = _mm512_mask_blend_epi32(is_odd, _mm512_set1_epi32(0x7fff), _mm512_set1_epi32(0x8000));
  const __m512i rounded = _mm512_add_epi32(bits, more);
  const __m512i chosen = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16));
}
inline F32 load_half(const void* p) { return half_to_float(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
inline F32 load_half_first(const void* p, int count) {
  return half_to_float(_mm256_maskz_loadu_epi16(first_lanes(count), p));
}
inline void store_half(void* p, F32 a) { _mm256_storeu_si256(static_cast<__m256i*>(p), float_to_half(a)); }
inline void store_half_first(void* p, F32 a, int count) {
  _mm256_mask_storeu_epi16(p, first_lanes(count), float_to_half(a));
}
inline F32 load_bfloat(const void* p) { return bfloat_to_float(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
inline F32 load_bfloat_first(const void* p, int count) {
  return bfloat_to_float(_mm256_maskz_loadu_epi16(first_lanes(count), p));
}
inline void store_bfloat(void* p, F32 a) { _mm256_storeu_si256(static_cast<__m256i*>(p), float_to_bfloat(a)); }
inline void store_bfloat_first(void* p, F32 a, int count) {
  _mm256_mask_storeu_epi16(p, first_lanes(count), float_to_bfloat(a));
}
// Sixteen E4M3 floats, each times 2⁻⁸: their bits encode an f16.
inline F32 load_e4m3(const void* p) {
  const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  const __m256i sign = _mm256_and_si256(_mm256_slli_epi16(wide, 8), _mm256_set1_epi16(INT16_MIN));
  const __m256i rest = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(0x3f80));
  return {_mm512_cvtph_ps(_mm256_or_si256(sign, rest))};
}

inline F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32 operator-(F32 a) { return {-a.v}; }  // fused into an adjacent fma
inline F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }  // a·b + c
inline F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32 abs(F32 a) { return {_mm512_abs_ps(a.v)}; }
inline F32 copysign(F32 size, F32 sign) {
  const __m512i bits = _mm512_castps_si512(size.v), mask = _mm512_set1_epi32(INT32_MIN);
  return {_mm512_castsi512_ps(_mm512_ternarylogic_epi32(mask, _mm512_castps_si512(sign.v), bits, 0xca))};
}
// 1 / a within 1 ulp, if that is a normal number.
inline F32 reciprocal(F32 a) {
  const __m512 r = _mm512_rcp14_ps(a.v);
  return {_mm512_fmadd_ps(_mm512_fnmadd_ps(a.v, r, _mm512_set1_ps(1)), r, r)};
}
inline F32 sqrt(F32 a) { return {_mm512_sqrt_ps(a.v)}; }
inline F32 floor(F32 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
inline F32 round_even(F32 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
// a·2ⁿ for whole n in ±300; beyond the range of floats it gives 0 or infinity.
inline F32 scale_by_power(F32 a, F32 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
inline F32 scale_by_normal_power(F32 a, F32 n) { return scale_by_power(a, n); }
inline float reduce_sum(F32 a) { return _mm512_reduce_add_ps(a.v); }
inline float reduce_max(F32 a) { return _mm512_reduce_max_ps(a.v); }

inline Mask operator<(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask operator==(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
// Whether one of the two is NaN.
inline Mask unordered(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_UNORD_Q)}; }
inline Mask operator|(Mask a, Mask b) { return {static_cast<__mmask16>(a.m | b.m)}; }
inline bool any(Mask mask) { return mask.m != 0; }
inline Mask first_mask(int count) { return {first_lanes(count)}; }  // of the first `count` (0 to 16) lanes
inline F32 zero_unless(Mask mask, F32 a) { return {_mm512_maskz_mov_ps(mask.m, a.v)}; }
inline F32 select(Mask mask, F32 yes, F32 no) { return {_mm512_mask_blend_ps(mask.m, no.v, yes.v)}; }

inline I32 zero_i32() { return {_mm512_setzero_si512()}; }
inline I32 splat_i32(int32_t x) { return {_mm512_set1_epi32(x)}; }
inline I32 load_i8(const int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline I32 load_u8(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline I32 operator+(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I32 operator*(I32 a, I32 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
inline F32 to_f32(I32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline I32 round_to_i32(F32 a) { return {_mm512_cvtps_epi32(a.v)}; }  // to nearest even; NaN gives INT32_MIN
// Wraps around, which g++'s _mm512_reduce_add_epi32 leaves undefined: its last addition is one of ints.
inline int32_t reduce_sum(I32 a) {
  const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti64x4_epi64(a.v, 1));
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

inline Bytes load_bytes(const void* p) { return {_mm512_loadu_si512(p)}; }
inline void store_bytes(void* p, Bytes a) { _mm512_storeu_si512(p, a.v); }
inline Bytes splat_byte(uint8_t x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
inline Bytes operator|(Bytes a, Bytes b) { return {_mm512_or_si512(a.v, b.v)}; }
// (byte >> shift) & mask, and (byte & mask) << shift; mask's bits must not cross the byte.
template <int shift, int mask>
Bytes bits_down(Bytes a) {
  return {_mm512_and_si512(_mm512_srli_epi16(a.v, shift), _mm512_set1_epi8(static_cast<char>(mask)))};
}
template <int shift, int mask>
Bytes bits_up(Bytes a) {
  return {_mm512_and_si512(_mm512_slli_epi16(a.v, shift), _mm512_set1_epi8(static_cast<char>(mask << shift)))};
}
// table[index] of 16 bytes; indices are below 16.
inline Bytes lookup(const uint8_t* table, Bytes index) {
  const __m512i wide = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm512_shuffle_epi8(wide, index.v)};
}

// 32 signed words: lane i holds words 2i and 2i+1.
inline Words load_words(const int16_t* p) { return {_mm512_loadu_si512(p)}; }
inline void store_words(int16_t* p, Words a) { _mm512_storeu_si512(p, a.v); }
inline Words join_words(I32 even, I32 odd) {  // the low 16 bits of each
  return {_mm512_mask_blend_epi16(0xaaaaaaaa, even.v, _mm512_slli_epi32(odd.v, 16))};
}
inline Words splat_words(int16_t x) { return {_mm512_set1_epi16(x)}; }
// Bytes 0 and 2, or 1 and 3, of each lane's four, as words.
inline Words even_bytes(Bytes a) { return {_mm512_and_si512(a.v, _mm512_set1_epi16(0xff))}; }
inline Words odd_bytes(Bytes a) { return {_mm512_srli_epi16(a.v, 8)}; }
inline Words operator-(Words a, Words b) { return {_mm512_sub_epi16(a.v, b.v)}; }
inline Words operator*(Words a, Words b) { return {_mm512_mullo_epi16(a.v, b.v)}; }
// Words 0, 2, 1, 3 of each four; saturates.
inline void store_i16_dealt(int16_t* p, I32 a) {
  const __m256i words = _mm512_cvtsepi32_epi16(a.v);
  const __m256i dealt = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, 0xd8), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), dealt);
}
// Lane i of the sum gains the dot product of words 2i and 2i+1 with two others.
inline Pair splat_pair(const int16_t* p) {
  int32_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return {_mm512_set1_epi32(bits)};
}
inline I32 dot2(I32 sum, Words a, Pair b) { return {_mm512_dpwssd_epi32(sum.v, a.v, b.v)}; }

// Products of pairs of bf16, as in pairs.h, which has the words; Zen 4, Sapphire Rapids and later have them.
inline bool has_pair_products() { return __builtin_cpu_supports("avx512bf16"); }
template <int kRows, int kVectors, int kRowStep>
[[gnu::target("avx512bf16")]] void add_pairs(const float* a, const float* b, int64_t steps, bool accumulate,
                                             float* sums, int64_t stride) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      sum[r][j] = accumulate ? _mm512_loadu_ps(sums + r * stride + j * 16) : _mm512_setzero_ps();
    }
  }
  for (int64_t s = 0; s < steps; ++s, a += kRowStep, b += kVectors * 16) {
    __m512i pairs[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) pairs[j] = _mm512_loadu_si512(b + j * 16);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, a + r, sizeof pair);
      const __m512i factor = _mm512_set1_epi32(pair);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[r][j] = _mm512_dpbf16_ps(sum[r][j], (__m512bh)factor, (__m512bh)pairs[j]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) _mm512_storeu_ps(sums + r * stride + j * 16, sum[r][j]);
  }
}

inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

}  // namespace gabbro::cpu::GABBRO_ISA
