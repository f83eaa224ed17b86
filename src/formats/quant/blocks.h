// The functions of each format, and what their decoders share. Private to this folder.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "src/base/half.h"
#include "src/formats/quant/lanes.h"
#include "src/formats/quant/quant.h"

namespace gabbro::quant {

static_assert(std::endian::native == std::endian::little, "blocks are read as little-endian");

// <format>.cc defines each.
namespace decoders {
#define GABBRO_APPLY(name, ...) extern const QuantFormat name;
GABBRO_QUANT_FORMATS(GABBRO_APPLY)
#undef GABBRO_APPLY
}  // namespace decoders

inline uint8_t byte_at(const std::byte* bytes, int i) { return std::to_integer<uint8_t>(bytes[i]); }

inline float load_half(const std::byte* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return half_bits_to_float(bits);
}

inline void store_half(std::byte* bytes, float value) {
  const uint16_t bits = float_to_half_bits(value);
  std::memcpy(bytes, &bits, sizeof bits);
}

inline float load_float(const std::byte* bytes) {
  float value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

inline uint32_t load_u32(const std::byte* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// `count` bytes hold 2·count codes: the low nibbles come first, then the high ones.
inline void unpack_nibbles(const std::byte* bytes, int count, uint8_t* codes) {
  for (int i = 0; i < count; ++i) {
    codes[i] = byte_at(bytes, i) & 15;
    codes[i + count] = byte_at(bytes, i) >> 4;
  }
}

inline void pack_nibbles(const uint8_t* codes, int count, std::byte* bytes) {
  for (int i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((codes[i] & 15) | (codes[i + count] & 15) << 4);
}

// Numbers of 4 bits, the first one in the low nibble.
inline void pack_nibble_pairs(const int* numbers, int count, std::byte* bytes) {
  for (int i = 0; i < count; i += 2) bytes[i / 2] = static_cast<std::byte>(numbers[i] | numbers[i + 1] << 4);
}

// Bit i of 32 is the fifth bit of code i. Eight at a time: byte i of `spread` is 128 or more where bit i is set.
inline void add_fifth_bits(const std::byte* bytes, uint8_t* codes) {
  constexpr uint64_t kOnes = 0x0101010101010101, kDiagonal = 0x8040201008040201, kSevenBits = 0x7f7f7f7f7f7f7f7f;
  for (int i = 0; i < 4; ++i) {
    const uint64_t selected = byte_at(bytes, i) * kOnes & kDiagonal;
    const uint64_t spread = selected | ((selected & kSevenBits) + kSevenBits);
    uint64_t eight;
    std::memcpy(&eight, codes + 8 * i, sizeof eight);
    eight |= (spread >> 7 & kOnes) << 4;
    std::memcpy(codes + 8 * i, &eight, sizeof eight);
  }
}

// Adds bits of 32 bytes, selected by `mask` after a shift, to 32 codes from bit `at` on. Shifts are the same for all
// elements, so that compilers vectorize the loop.
inline void add_bits(const std::byte* bytes, int shift, int mask, int at, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] | (byte_at(bytes, i) >> shift & mask) << at);
}

// Adds two bits to each of 256 codes, in two runs of 128: byte l of 32 holds elements l, l + 32, l + 64 and l + 96, low
// bits first.
inline void add_two_bits(const std::byte* bytes, int at, uint8_t* codes) {
  for (int run = 0; run < 8; ++run) add_bits(bytes + run / 4 * 32, run % 4 * 2, 3, at, codes + run * 32);
}

// Adds one bit to each of 256 codes: byte l of 32 holds elements l, l + 32 and so on, low bits first.
inline void add_one_bit(const std::byte* bytes, int at, uint8_t* codes) {
  for (int run = 0; run < 8; ++run) add_bits(bytes, run, 1, at, codes + run * 32);
}

inline void store_fifth_bits(const uint8_t* codes, std::byte* bytes) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>((codes[i] >> 4) & 1) << i;
  std::memcpy(bytes, &bits, sizeof bits);
}

inline void set_one_group(DecodedBlock& out, float scale, float minimum) {
  out.scale = scale;
  out.minimum = minimum;
  out.sub_scales[0] = 1;
  out.sub_minimums[0] = 1;
}

// Formats of several groups under one scale.
inline void set_equal_groups(DecodedBlock& out, float scale, int groups) {
  out.scale = scale;
  out.minimum = 0;
  for (int g = 0; g < groups; ++g) out.sub_scales[g] = static_cast<int8_t>(out.sub_minimums[g] = 1);
}

// A sub-scale of 32 elements, in a canonical form with groups of 16.
inline void set_sub_scale_pair(DecodedBlock& out, int pair, int sub_scale) {
  for (int g = 2 * pair; g < 2 * pair + 2; ++g) {
    out.sub_scales[g] = static_cast<int8_t>(sub_scale);
    out.sub_minimums[g] = 1;
  }
}

// Sixteen sub-scales 2s + 1, s in a nibble.
inline void set_odd_sub_scales(const std::byte* nibbles, DecodedBlock& out) {
  for (int g = 0; g < 16; ++g) {
    out.sub_scales[g] = static_cast<int8_t>(2 * (byte_at(nibbles, g / 2) >> (g % 2 * 4) & 15) + 1);
    out.sub_minimums[g] = 1;
  }
}

// 256 codes as add_two_bits() has them.
inline void unpack_two_bits(const std::byte* bytes, uint8_t* codes) {
  std::memset(codes, 0, 256);
  add_two_bits(bytes, 0, codes);
}

inline void pack_two_bits(const uint8_t* codes, std::byte* bytes) {
  for (int i = 0; i < 64; ++i) {
    const uint8_t* first = codes + i / 32 * 128 + i % 32;
    bytes[i] =
        static_cast<std::byte>((first[0] & 3) | (first[32] & 3) << 2 | (first[64] & 3) << 4 | (first[96] & 3) << 6);
  }
}

// The 6-bit scales and minimums of Q4_K and Q5_K, eight of each in 12 bytes: bytes 0-3 and 4-7 hold the first four
// scales and minimums in their low six bits; bytes 8-11 the low nibbles of the last four (scale low, minimum high),
// whose upper two bits are the top bits of bytes 0-3 and 4-7.
inline void unpack_k_scales(const std::byte* packed, DecodedBlock& out) {
  for (int g = 0; g < 4; ++g) {
    const int low = byte_at(packed, g), high = byte_at(packed, g + 4), last = byte_at(packed, g + 8);
    out.sub_scales[g] = static_cast<int8_t>(low & 63);
    out.sub_minimums[g] = static_cast<uint8_t>(high & 63);
    out.sub_scales[g + 4] = static_cast<int8_t>((last & 15) | (low >> 6) << 4);
    out.sub_minimums[g + 4] = static_cast<uint8_t>((last >> 4) | (high >> 6) << 4);
  }
}

// Common part of Q4_K and Q5_K: the scales at the block's start, and 128 bytes of `nibbles` in quarters of 64 elements,
// byte l of 32 holding elements l (low) and l + 32 (high).
inline void decode_k_nibbles(const std::byte* block, const std::byte* nibbles, DecodedBlock& out) {
  out.scale = load_half(block);
  out.minimum = -load_half(block + 2);
  unpack_k_scales(block + 4, out);
  for (int quarter = 0; quarter < 4; ++quarter) unpack_nibbles(nibbles + 32 * quarter, 32, out.codes + 64 * quarter);
}

inline void pack_k_scales(const int* scales, const int* minimums, std::byte* packed) {
  for (int g = 0; g < 4; ++g) {
    packed[g] = static_cast<std::byte>(scales[g] | scales[g + 4] >> 4 << 6);
    packed[g + 4] = static_cast<std::byte>(minimums[g] | minimums[g + 4] >> 4 << 6);
    packed[g + 8] = static_cast<std::byte>((scales[g + 4] & 15) | (minimums[g + 4] & 15) << 4);
  }
}

// Stores that part of an encoder's result (fit_range.h).
template <class Fit>
void encode_k_nibbles(const Fit& fit, std::byte* block, std::byte* nibbles) {
  store_half(block, fit.scale);
  store_half(block + 2, fit.minimum);
  pack_k_scales(fit.sub_scales, fit.sub_minimums, block + 4);
  for (int quarter = 0; quarter < 4; ++quarter) pack_nibbles(fit.codes + 64 * quarter, 32, nibbles + 32 * quarter);
}

// The first of the elements farthest from zero, with its sign. `count` is a multiple of kLanes.
inline float signed_peak(const float* values, int count) {
  Lanes peaks{};
  for (int i = 0; i < count; i += kLanes) peaks = max(absolute(load_lanes(values + i)), peaks);
  float peak = 0;
  for (int i = 0; i < kLanes; ++i) peak = std::max(peak, peaks[i]);
  for (int i = 0; i < count; ++i) {
    if (std::fabs(values[i]) == peak) return values[i];
  }
  return 0;  // of NaN alone
}

// Truncates to codes; what is not finite saturates, and NaN becomes 0.
inline void store_codes(Lanes levels, int largest, uint8_t* codes) {
  const IntLanes whole = __builtin_convertvector(clamp(levels, 0, static_cast<float>(largest)), IntLanes);
  for (int i = 0; i < kLanes; ++i) codes[i] = static_cast<uint8_t>(whole[i]);
}

// Codes of a symmetric format with 2·zero levels: the peak maps to level -zero, so that it is met exactly.
inline float encode_symmetric(const float* values, int zero, uint8_t* codes) {
  const float scale = signed_peak(values, 32) / static_cast<float>(-zero);
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  const float offset = static_cast<float>(zero);
  for (int i = 0; i < 32; i += kLanes) {
    store_codes(load_lanes(values + i) * inverse + offset + 0.5f, 2 * zero - 1, codes + i);
  }
  return scale;
}

// Codes of a format with scale and minimum: the extremes map to 0 and `largest`.
inline float encode_range(const float* values, int largest, uint8_t* codes, float* minimum) {
  Lanes lows = load_lanes(values), highs = lows;
  for (int i = kLanes; i < 32; i += kLanes) {
    lows = min(load_lanes(values + i), lows);
    highs = max(load_lanes(values + i), highs);
  }
  float low = lows[0], high = highs[0];
  for (int i = 1; i < kLanes; ++i) {
    low = std::min(low, lows[i]);
    high = std::max(high, highs[i]);
  }
  if (low == 0) low = *std::find(values, values + 32, 0.0f);  // the first one's sign
  const float scale = (high - low) / static_cast<float>(largest);
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  *minimum = low;
  for (int i = 0; i < 32; i += kLanes) {
    store_codes((load_lanes(values + i) - low) * inverse + 0.5f, largest, codes + i);
  }
  return scale;
}

}  // namespace gabbro::quant
