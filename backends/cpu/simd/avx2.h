// The vocabulary of simd.h for AVX2 with FMA and F16C: a vector is two registers.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "backends/cpu/simd/first_words.h"
#include "backends/cpu/simd/pairs.h"
#include "backends/cpu/simd/transpose_x86.h"

namespace gabbro::cpu::GABBRO_ISA {

struct F32 {
  __m256 a, b;
};
struct I32 {
  __m256i a, b;
};
struct Bytes {
  __m256i a, b;
};
struct Words {
  __m256i a, b;
};
struct Pair {
  __m256i v;
};
struct Mask {
  __m256 a, b;
};

// Register budget of 16: adjacent vectors of weights, and the number of sums of f32 and of 16-bit products that meet
// them (kernels/product_tile.h, linear_plain.cc, linear_many.cc).
inline constexpr int kTileVectors = 1;
inline constexpr int kFloatTokens = 4;
inline constexpr int kMatrixRows = 6;  // of a product of matrices: 12 sums, two vectors and a factor
inline constexpr int kWordSums = 6;
// Depthwise convolutions: rows of sums, and the taps that meet them (kernels/depthwise_tile.h; seven taps at once reach
// 75 instead of 83 GFLOP/s on Zen 4).
inline constexpr int kDepthwiseRows = 4;
inline constexpr int kDepthwiseTaps = 5;

inline constexpr bool kMasksLanes = true;  // zero_unless() costs no more than a load

// How far ahead of their use weights are asked for, in bytes: block formats, and plain elements (best of 1 to 6 KB on
// Zen 3).
inline constexpr int64_t kPrefetchCodes = 4096;
inline constexpr int64_t kPrefetchElements = 1024;
inline constexpr int kFewPanels = 4;

inline F32 zero_f32() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline F32 splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F32 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline F32 load_once(const float* p) { return load(p); }
// Elements 0, 2, ... 30 of 32, and those between.
template <int kPick>
__m256 load_alternate(const float* p) {
  const __m256 parts = _mm256_shuffle_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), kPick);
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(parts), 0xd8));
}
inline F32 load_even(const float* p) { return {load_alternate<0x88>(p), load_alternate<0x88>(p + 16)}; }
inline F32 load_odd(const float* p) { return {load_alternate<0xdd>(p), load_alternate<0xdd>(p + 16)}; }
inline void store(float* p, F32 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
inline Mask first_mask(int count) {  // of the first `count` (0 to 16) lanes
  const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), many = _mm256_set1_epi32(count);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(many, number)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_sub_epi32(many, _mm256_set1_epi32(8)), number))};
}
// The first `count` (0 to 16) lanes; the others are zero, or left alone in memory.
inline F32 load_first(const float* p, int count) {
  const Mask mask = first_mask(count);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(mask.a)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(mask.b))};
}
inline void store_first(float* p, F32 x, int count) {
  if (count == 16) return store(p, x);
  alignas(32) float lanes[16];
  store(lanes, x);
  std::memcpy(p, lanes, static_cast<size_t>(count) * sizeof(float));
}
inline F32 load_half(const void* p) {
  const auto* parts = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(parts)), _mm256_cvtph_ps(_mm_loadu_si128(parts + 1))};
}
inline void store_half(void* p, F32 x) {
  auto* parts = static_cast<__m128i*>(p);
  _mm_storeu_si128(parts, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(parts + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline F32 load_bfloat(const void* p) {
  const auto* words = static_cast<const __m128i*>(p);
  const auto widen = [](__m128i w) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(w), 16)); };
  return {widen(_mm_loadu_si128(words)), widen(_mm_loadu_si128(words + 1))};
}
// Sixteen E4M3 floats, each times 2⁻⁸: their bits encode an f16.
inline F32 load_e4m3(const void* p) {
  const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  const __m256i sign = _mm256_and_si256(_mm256_slli_epi16(wide, 8), _mm256_set1_epi16(INT16_MIN));
  const __m256i rest = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(0x3f80));
  const __m256i bits = _mm256_or_si256(sign, rest);
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(bits)), _mm256_cvtph_ps(_mm256_extracti128_si256(bits, 1))};
}
// To nearest even; a NaN stays one, made quiet: nothing is added to it that could carry into its exponent.
inline __m256i bfloat_bits(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rest = _mm256_andnot_si256(is_nan, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_and_si256(is_nan, _mm256_set1_epi32(0x400000));
  return _mm256_srli_epi32(_mm256_or_si256(_mm256_add_epi32(bits, rest), quiet), 16);
}
inline void store_bfloat(void* p, F32 x) {
  const __m256i words = _mm256_packus_epi32(bfloat_bits(x.a), bfloat_bits(x.b));
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_permute4x64_epi64(words, 0xd8));
}
inline F32 load_half_first(const void* p, int count) { return load_half(FirstWords(p, count).words); }
inline F32 load_bfloat_first(const void* p, int count) { return load_bfloat(FirstWords(p, count).words); }
inline void store_half_first(void* p, F32 x, int count) {
  FirstWords first;
  store_half(first.words, x);
  first.copy_to(p, count);
}
inline void store_bfloat_first(void* p, F32 x, int count) {
  FirstWords first;
  store_bfloat(first.words, x);
  first.copy_to(p, count);
}

inline F32 operator+(F32 x, F32 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline F32 operator-(F32 x, F32 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline F32 operator-(F32 x) { return {-x.a, -x.b}; }  // fused into an adjacent fma
inline F32 operator*(F32 x, F32 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline F32 operator/(F32 x, F32 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline F32 fma(F32 x, F32 y, F32 z) {  // x·y + z
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
inline F32 max(F32 x, F32 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline F32 min(F32 x, F32 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
inline F32 abs(F32 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
inline F32 copysign(F32 size, F32 sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  const auto joined = [&](__m256 a, __m256 b) { return _mm256_or_ps(_mm256_andnot_ps(bit, a), _mm256_and_ps(bit, b)); };
  return {joined(size.a, sign.a), joined(size.b, sign.b)};
}
inline F32 reciprocal(F32 a) {
  const __m256 one = _mm256_set1_ps(1);
  return {_mm256_div_ps(one, a.a), _mm256_div_ps(one, a.b)};
}
inline F32 sqrt(F32 x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
inline F32 floor(F32 x) { return {_mm256_floor_ps(x.a), _mm256_floor_ps(x.b)}; }
inline F32 round_even(F32 x) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, kMode), _mm256_round_ps(x.b, kMode)};
}
// x·2ⁿ for whole n in ±300, in three factors that are each a normal float; beyond their range it gives 0 or infinity.
inline __m256 scale_by_power(__m256 x, __m256 n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i third = _mm256_cvtps_epi32(_mm256_mul_ps(n, _mm256_set1_ps(1.0f / 3)));
  const __m256i rest = _mm256_sub_epi32(whole, _mm256_add_epi32(third, third));
  const auto power = [](__m256i e) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
  };
  return _mm256_mul_ps(_mm256_mul_ps(_mm256_mul_ps(x, power(third)), power(third)), power(rest));
}
inline F32 scale_by_power(F32 x, F32 n) { return {scale_by_power(x.a, n.a), scale_by_power(x.b, n.b)}; }
// For a normal x and a normal result: n is added to the exponent.
inline __m256 scale_by_normal_power(__m256 x, __m256 n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
}
inline F32 scale_by_normal_power(F32 x, F32 n) {
  return {scale_by_normal_power(x.a, n.a), scale_by_normal_power(x.b, n.b)};
}
inline float reduce_sum(F32 x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}
inline float reduce_max(F32 x) {
  const __m256 eight = _mm256_max_ps(x.a, x.b);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}

inline Mask operator<(F32 x, F32 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
inline Mask operator==(F32 x, F32 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)};
}
// Whether one of the two is NaN.
inline Mask unordered(F32 x, F32 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, y.b, _CMP_UNORD_Q)};
}
inline Mask operator|(Mask x, Mask y) { return {_mm256_or_ps(x.a, y.a), _mm256_or_ps(x.b, y.b)}; }
inline bool any(Mask mask) { return _mm256_movemask_ps(_mm256_or_ps(mask.a, mask.b)) != 0; }
inline F32 zero_unless(Mask mask, F32 x) { return {_mm256_and_ps(mask.a, x.a), _mm256_and_ps(mask.b, x.b)}; }
inline F32 select(Mask mask, F32 yes, F32 no) {
  return {_mm256_blendv_ps(no.a, yes.a, mask.a), _mm256_blendv_ps(no.b, yes.b, mask.b)};
}

inline I32 zero_i32() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline I32 splat_i32(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline I32 load_i8(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
inline I32 load_u8(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
inline I32 operator+(I32 x, I32 y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
inline I32 operator*(I32 x, I32 y) { return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)}; }
inline F32 to_f32(I32 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
inline I32 round_to_i32(F32 x) {  // to nearest even; NaN gives INT32_MIN
  return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
inline int32_t reduce_sum(I32 x) {
  const __m256i eight = _mm256_add_epi32(x.a, x.b);
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

inline Bytes load_bytes(const void* p) {
  const auto* parts = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(parts), _mm256_loadu_si256(parts + 1)};
}
inline void store_bytes(void* p, Bytes x) {
  auto* parts = static_cast<__m256i*>(p);
  _mm256_storeu_si256(parts, x.a);
  _mm256_storeu_si256(parts + 1, x.b);
}
inline Bytes splat_byte(uint8_t x) {
  const __m256i bytes = _mm256_set1_epi8(static_cast<char>(x));
  return {bytes, bytes};
}
inline Bytes operator|(Bytes x, Bytes y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
// (byte >> shift) & mask, and (byte & mask) << shift; mask's bits must not cross the byte.
template <int shift, int mask>
Bytes bits_down(Bytes x) {
  const __m256i bits = _mm256_set1_epi8(static_cast<char>(mask));
  return {_mm256_and_si256(_mm256_srli_epi16(x.a, shift), bits), _mm256_and_si256(_mm256_srli_epi16(x.b, shift), bits)};
}
template <int shift, int mask>
Bytes bits_up(Bytes x) {
  const __m256i bits = _mm256_set1_epi8(static_cast<char>(mask << shift));
  return {_mm256_and_si256(_mm256_slli_epi16(x.a, shift), bits), _mm256_and_si256(_mm256_slli_epi16(x.b, shift), bits)};
}
// table[index] of 16 bytes; indices are below 16.
inline Bytes lookup(const uint8_t* table, Bytes index) {
  const __m256i wide = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(wide, index.a), _mm256_shuffle_epi8(wide, index.b)};
}

// 32 signed words: lane i holds words 2i and 2i+1.
inline Words load_words(const int16_t* p) {
  const auto* parts = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(parts), _mm256_loadu_si256(parts + 1)};
}
inline void store_words(int16_t* p, Words x) {
  auto* parts = reinterpret_cast<__m256i*>(p);
  _mm256_storeu_si256(parts, x.a);
  _mm256_storeu_si256(parts + 1, x.b);
}
inline Words join_words(I32 even, I32 odd) {  // the low 16 bits of each
  return {_mm256_blend_epi16(even.a, _mm256_slli_epi32(odd.a, 16), 0xaa),
          _mm256_blend_epi16(even.b, _mm256_slli_epi32(odd.b, 16), 0xaa)};
}
inline Words splat_words(int16_t x) { return {_mm256_set1_epi16(x), _mm256_set1_epi16(x)}; }
// Bytes 0 and 2, or 1 and 3, of each lane's four, as words.
inline Words even_bytes(Bytes x) {
  const __m256i low = _mm256_set1_epi16(0xff);
  return {_mm256_and_si256(x.a, low), _mm256_and_si256(x.b, low)};
}
inline Words odd_bytes(Bytes x) { return {_mm256_srli_epi16(x.a, 8), _mm256_srli_epi16(x.b, 8)}; }
inline Words operator-(Words x, Words y) { return {_mm256_sub_epi16(x.a, y.a), _mm256_sub_epi16(x.b, y.b)}; }
inline Words operator*(Words x, Words y) { return {_mm256_mullo_epi16(x.a, y.a), _mm256_mullo_epi16(x.b, y.b)}; }
// Words 0, 2, 1, 3 of each four; saturates.
inline void store_i16_dealt(int16_t* p, I32 x) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
  const __m256i dealt = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, 0xd8), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), dealt);
}
// Lane i of the sum gains the dot product of words 2i and 2i+1 with two others.
inline Pair splat_pair(const int16_t* p) {
  int32_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return {_mm256_set1_epi32(bits)};
}
inline I32 dot2(I32 sum, Words x, Pair y) {
  return {_mm256_add_epi32(sum.a, _mm256_madd_epi16(x.a, y.v)), _mm256_add_epi32(sum.b, _mm256_madd_epi16(x.b, y.v))};
}

inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

// To cast and multiply in f32 is faster than to take pairs apart.
inline bool has_pair_products() { return false; }

}  // namespace gabbro::cpu::GABBRO_ISA
