// The vocabulary of simd.h in plain C++, for any processor; also what the other two are tested against.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/simd/first_words.h"
#include "backends/cpu/simd/pairs.h"
#include "src/base/half.h"

namespace gabbro::cpu::GABBRO_ISA {

struct F32 {
  float v[16];
};
struct I32 {
  int32_t v[16];
};
struct Bytes {
  uint8_t v[64];
};
struct Words {
  int16_t v[32];
};
struct Pair {
  int16_t v[2];
};
struct Mask {
  bool m[16];
};

// Register budget of 16 registers of four lanes: adjacent vectors of weights, and the number of sums that meet them.
inline constexpr int kTileVectors = 1;
inline constexpr int kFloatTokens = 4;
inline constexpr int kMatrixRows = 4;
inline constexpr int kWordSums = 4;
inline constexpr int kDepthwiseRows = 2;
inline constexpr int kDepthwiseTaps = 2;

inline constexpr bool kMasksLanes = false;  // zero_unless() is a branch for each lane

// How far ahead of their use weights are asked for, in bytes: block formats, and plain elements.
inline constexpr int64_t kPrefetchCodes = 2048;
inline constexpr int64_t kPrefetchElements = 2048;
inline constexpr int kFewPanels = 4;

template <class Result, class Rule>
inline Result each_lane(Rule rule) {
  Result result;
  for (int i = 0; i < 16; ++i) result.v[i] = rule(i);
  return result;
}

inline F32 splat(float x) {
  return each_lane<F32>([&](int) { return x; });
}
inline F32 zero_f32() { return splat(0); }
inline F32 load(const float* p) {
  return each_lane<F32>([&](int i) { return p[i]; });
}
inline F32 load_once(const float* p) { return load(p); }
// Elements 0, 2, ... 30 of 32, and those between.
inline F32 load_even(const float* p) {
  return each_lane<F32>([&](int i) { return p[2 * i]; });
}
inline F32 load_odd(const float* p) { return load_even(p + 1); }
inline void store(float* p, F32 a) { std::memcpy(p, a.v, sizeof a.v); }
// The first `count` (0 to 16) lanes; the others are zero, or left alone in memory.
inline F32 load_first(const float* p, int count) {
  return each_lane<F32>([&](int i) { return i < count ? p[i] : 0.0f; });
}
inline void store_first(float* p, F32 a, int count) { std::memcpy(p, a.v, static_cast<size_t>(count) * sizeof(float)); }
inline uint16_t load_u16(const void* p, int i) {
  uint16_t bits;
  std::memcpy(&bits, static_cast<const char*>(p) + 2 * i, sizeof bits);
  return bits;
}
inline F32 load_half(const void* p) {
  return each_lane<F32>([&](int i) { return half_bits_to_float(load_u16(p, i)); });
}
// Sixteen E4M3 floats, each times 2⁻⁸: their bits encode an f16.
inline F32 load_e4m3(const void* p) {
  return each_lane<F32>([&](int i) {
    const int code = static_cast<const uint8_t*>(p)[i];
    return half_bits_to_float(static_cast<uint16_t>((code & 0x80) << 8 | (code & 0x7f) << 7));
  });
}
inline void store_half(void* p, F32 a) {
  uint16_t bits[16];
  for (int i = 0; i < 16; ++i) bits[i] = float_to_half_bits(a.v[i]);
  std::memcpy(p, bits, sizeof bits);
}
inline F32 load_bfloat(const void* p) {
  return each_lane<F32>([&](int i) { return bfloat_bits_to_float(load_u16(p, i)); });
}
inline void store_bfloat(void* p, F32 a) {
  uint16_t bits[16];
  for (int i = 0; i < 16; ++i) bits[i] = float_to_bfloat_bits(a.v[i]);
  std::memcpy(p, bits, sizeof bits);
}
inline F32 load_half_first(const void* p, int count) { return load_half(FirstWords(p, count).words); }
inline F32 load_bfloat_first(const void* p, int count) { return load_bfloat(FirstWords(p, count).words); }
inline void store_half_first(void* p, F32 a, int count) {
  FirstWords first;
  store_half(first.words, a);
  first.copy_to(p, count);
}
inline void store_bfloat_first(void* p, F32 a, int count) {
  FirstWords first;
  store_bfloat(first.words, a);
  first.copy_to(p, count);
}

inline F32 operator+(F32 a, F32 b) {
  return each_lane<F32>([&](int i) { return a.v[i] + b.v[i]; });
}
inline F32 operator-(F32 a, F32 b) {
  return each_lane<F32>([&](int i) { return a.v[i] - b.v[i]; });
}
inline F32 operator-(F32 a) {
  return each_lane<F32>([&](int i) { return -a.v[i]; });
}
inline F32 operator*(F32 a, F32 b) {
  return each_lane<F32>([&](int i) { return a.v[i] * b.v[i]; });
}
inline F32 operator/(F32 a, F32 b) {
  return each_lane<F32>([&](int i) { return a.v[i] / b.v[i]; });
}
// a·b + c, in two roundings: a fused one would be a library call.
inline F32 fma(F32 a, F32 b, F32 c) {
  return each_lane<F32>([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
inline F32 max(F32 a, F32 b) {
  return each_lane<F32>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32 min(F32 a, F32 b) {
  return each_lane<F32>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32 abs(F32 a) {
  return each_lane<F32>([&](int i) { return std::fabs(a.v[i]); });
}
inline F32 copysign(F32 size, F32 sign) {
  return each_lane<F32>([&](int i) { return std::copysign(size.v[i], sign.v[i]); });
}
inline F32 reciprocal(F32 a) {
  return each_lane<F32>([&](int i) { return 1 / a.v[i]; });
}
inline F32 sqrt(F32 a) {
  return each_lane<F32>([&](int i) { return std::sqrt(a.v[i]); });
}
inline F32 floor(F32 a) {
  return each_lane<F32>([&](int i) { return std::floor(a.v[i]); });
}
inline F32 round_even(F32 a) {
  return each_lane<F32>([&](int i) { return std::nearbyint(a.v[i]); });
}
// a·2ⁿ for whole n in ±300, in three factors that are each a normal float; beyond their range it gives 0 or infinity.
inline F32 scale_by_power(F32 a, F32 n) {
  const auto power = [](int e) { return std::bit_cast<float>((e + 127) << 23); };
  return each_lane<F32>([&](int i) {
    const int whole = n.v[i] == n.v[i] ? static_cast<int>(n.v[i]) : 0;
    const int third = whole / 3;
    return a.v[i] * power(third) * power(third) * power(whole - 2 * third);
  });
}
inline F32 scale_by_normal_power(F32 a, F32 n) { return scale_by_power(a, n); }
inline float reduce_sum(F32 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
  }
  return a.v[0];
}
inline float reduce_max(F32 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  }
  return a.v[0];
}

template <class Rule>
inline Mask each_mask(Rule rule) {
  Mask mask;
  for (int i = 0; i < 16; ++i) mask.m[i] = rule(i);
  return mask;
}
inline Mask first_mask(int count) {  // of the first `count` (0 to 16) lanes
  return each_mask([&](int i) { return i < count; });
}
inline Mask operator<(F32 a, F32 b) {
  return each_mask([&](int i) { return a.v[i] < b.v[i]; });
}
inline Mask operator==(F32 a, F32 b) {
  return each_mask([&](int i) { return a.v[i] == b.v[i]; });
}
// Whether one of the two is NaN.
inline Mask unordered(F32 a, F32 b) {
  return each_mask([&](int i) { return a.v[i] != a.v[i] || b.v[i] != b.v[i]; });
}
inline Mask operator|(Mask a, Mask b) {
  return each_mask([&](int i) { return a.m[i] || b.m[i]; });
}
inline bool any(Mask mask) {
  bool found = false;
  for (const bool lane : mask.m) found |= lane;
  return found;
}
inline F32 zero_unless(Mask mask, F32 a) {
  return each_lane<F32>([&](int i) { return mask.m[i] ? a.v[i] : 0; });
}
inline F32 select(Mask mask, F32 yes, F32 no) {
  return each_lane<F32>([&](int i) { return mask.m[i] ? yes.v[i] : no.v[i]; });
}

inline I32 splat_i32(int32_t x) {
  return each_lane<I32>([&](int) { return x; });
}
inline I32 zero_i32() { return splat_i32(0); }
inline I32 load_i8(const int8_t* p) {
  return each_lane<I32>([&](int i) { return int32_t{p[i]}; });
}
inline I32 load_u8(const uint8_t* p) {
  return each_lane<I32>([&](int i) { return p[i]; });
}
// Integers wrap around, as in the processors.
inline int32_t wrapped_sum(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
inline I32 operator+(I32 a, I32 b) {
  return each_lane<I32>([&](int i) { return wrapped_sum(a.v[i], b.v[i]); });
}
inline I32 operator*(I32 a, I32 b) {
  return each_lane<I32>(
      [&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) * static_cast<uint32_t>(b.v[i])); });
}
inline F32 to_f32(I32 a) {
  return each_lane<F32>([&](int i) { return static_cast<float>(a.v[i]); });
}
// To nearest even; NaN and what 32 bits cannot hold give INT32_MIN.
inline I32 round_to_i32(F32 a) {
  return each_lane<I32>([&](int i) {
    const float whole = std::nearbyint(a.v[i]);
    return whole >= -0x1p31f && whole < 0x1p31f ? static_cast<int32_t>(whole) : INT32_MIN;
  });
}
inline int32_t reduce_sum(I32 a) {
  int32_t sum = 0;
  for (const int32_t lane : a.v) sum = wrapped_sum(sum, lane);
  return sum;
}

template <class Rule>
inline Bytes each_byte(Rule rule) {
  Bytes result;
  for (int i = 0; i < 64; ++i) result.v[i] = static_cast<uint8_t>(rule(i));
  return result;
}
inline Bytes load_bytes(const void* p) {
  Bytes result;
  std::memcpy(result.v, p, sizeof result.v);
  return result;
}
inline void store_bytes(void* p, Bytes a) { std::memcpy(p, a.v, sizeof a.v); }
inline Bytes splat_byte(uint8_t x) {
  return each_byte([&](int) { return x; });
}
inline Bytes operator|(Bytes a, Bytes b) {
  return each_byte([&](int i) { return a.v[i] | b.v[i]; });
}
// (byte >> shift) & mask, and (byte & mask) << shift; mask's bits must not cross the byte.
template <int shift, int mask>
Bytes bits_down(Bytes a) {
  return each_byte([&](int i) { return (a.v[i] >> shift) & mask; });
}
template <int shift, int mask>
Bytes bits_up(Bytes a) {
  return each_byte([&](int i) { return (a.v[i] & mask) << shift; });
}
// table[index] of 16 bytes; indices are below 16.
inline Bytes lookup(const uint8_t* table, Bytes index) {
  return each_byte([&](int i) { return table[index.v[i]]; });
}

// 32 signed words: lane i holds words 2i and 2i+1.
inline Words load_words(const int16_t* p) {
  Words result;
  std::memcpy(result.v, p, sizeof result.v);
  return result;
}
inline void store_words(int16_t* p, Words a) { std::memcpy(p, a.v, sizeof a.v); }
inline Words join_words(I32 even, I32 odd) {  // the low 16 bits of each
  Words result;
  for (int i = 0; i < 32; ++i) result.v[i] = static_cast<int16_t>(i % 2 == 0 ? even.v[i / 2] : odd.v[i / 2]);
  return result;
}
template <class Rule>
inline Words each_word(Rule rule) {
  Words result;
  for (int i = 0; i < 32; ++i) result.v[i] = static_cast<int16_t>(rule(i));
  return result;
}
inline Words splat_words(int16_t x) {
  return each_word([&](int) { return x; });
}
// Bytes 0 and 2, or 1 and 3, of each lane's four, as words.
inline Words even_bytes(Bytes a) {
  return each_word([&](int i) { return a.v[2 * i]; });
}
inline Words odd_bytes(Bytes a) {
  return each_word([&](int i) { return a.v[2 * i + 1]; });
}
inline Words operator-(Words a, Words b) {
  return each_word([&](int i) { return a.v[i] - b.v[i]; });
}
inline Words operator*(Words a, Words b) {
  return each_word([&](int i) { return a.v[i] * b.v[i]; });
}
// Words 0, 2, 1, 3 of each four; saturates.
inline void store_i16_dealt(int16_t* p, I32 a) {
  constexpr int kOrder[4] = {0, 2, 1, 3};
  for (int i = 0; i < 16; ++i) {
    const int32_t value = a.v[i / 4 * 4 + kOrder[i % 4]];
    p[i] = static_cast<int16_t>(value < -32768 ? -32768 : value > 32767 ? 32767 : value);
  }
}
// Lane i of the sum gains the dot product of words 2i and 2i+1 with two others. Wraps around, as the instructions do.
inline Pair splat_pair(const int16_t* p) { return {{p[0], p[1]}}; }
inline I32 dot2(I32 sum, Words a, Pair b) {
  const auto product = [](int32_t x, int32_t y) { return static_cast<uint32_t>(x * y); };
  return each_lane<I32>([&](int i) {
    return static_cast<int32_t>(static_cast<uint32_t>(sum.v[i]) + product(a.v[2 * i], b.v[0]) +
                                product(a.v[2 * i + 1], b.v[1]));
  });
}

inline void prefetch(const void*) {}

// 16 rows of 16 elements, `step` bytes from one to the next: to[c][r] = row r's element c.
inline void transpose_words(const std::byte* from, int64_t step, uint16_t* to) {
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 16; ++c) std::memcpy(to + c * 16 + r, from + r * step + c * 2, 2);
  }
}

// 16 rows of 8 groups of 4 bytes, `step` bytes from one to the next: to + 64 · g + 4 · r = row r's group g.
inline void transpose_fours(const uint8_t* from, int64_t step, uint8_t* to) {
  for (int r = 0; r < 16; ++r) {
    for (int g = 0; g < 8; ++g) std::memcpy(to + g * 64 + r * 4, from + r * step + g * 4, 4);
  }
}

// `rows` (1 to 8) rows of 8 floats, `step` apart: eight columns, `to_step` apart.
inline void transpose_eights(const float* from, int64_t step, int rows, float* to, int64_t to_step) {
  for (int c = 0; c < 8; ++c) {
    for (int r = 0; r < rows; ++r) to[c * to_step + r] = from[r * step + c];
  }
}

inline bool has_pair_products() { return true; }

}  // namespace gabbro::cpu::GABBRO_ISA
