// Encodings of a block's scale, by ScaleCode: reading, writing and checking.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "gabbro/dtype.h"
#include "src/base/half.h"

namespace gabbro::quant {

// 2^(code - 128): half the value of an E8M0 exponent, since the levels of MXFP4 are doubled.
inline float e8m0_half(uint8_t code) {
  const uint32_t bits = code < 2 ? 0x00200000u << code : static_cast<uint32_t>(code - 1) << 23;
  return std::bit_cast<float>(bits);
}

// Half an unsigned E4M3 float (bias 7). Its NaN reads as 0, as ggml reads it; the eighth bit is not used.
inline float ue4m3_half(uint8_t code) {
  if (code == 0x7f) return 0;
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -10)
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
}

inline uint16_t load_word(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

inline uint16_t load_nibbles(const std::byte* from) {
  int bits = 0;
  for (int i = 0; i < 4; ++i) bits |= (load_word(from + 2 * i) >> 12) << (4 * i);
  return static_cast<uint16_t>(bits);
}

inline bool is_finite_half(uint16_t bits) { return (bits & 0x7c00) != 0x7c00; }

// Writes all scales of the block: the nearest to `scale`, or where the code has no sign to its magnitude; as an E8M0 in
// the logarithm.
inline void store_scale(const QuantTraits& traits, float scale, std::byte* block) {
  std::byte* at = block + traits.scale_at;
  const uint16_t half = float_to_half_bits(std::ldexp(scale, traits.scale_shift));
  switch (traits.scale) {
    case ScaleCode::kF16:
      std::memcpy(at, &half, sizeof half);
      return;
    case ScaleCode::kF16Nibbles:
      for (int i = 0; i < 4; ++i) {
        const auto word = static_cast<uint16_t>((load_word(at + 2 * i) & 0xfff) | (half >> (4 * i) & 15) << 12);
        std::memcpy(at + 2 * i, &word, sizeof word);
      }
      return;
    case ScaleCode::kE8M0: {
      const float exponent = scale != 0 ? std::round(std::log2(std::fabs(scale))) + 128 : 0;
      *at = static_cast<std::byte>(std::clamp(exponent, 0.0f, 252.0f));
      return;
    }
    case ScaleCode::kF32:
      std::memcpy(at, &scale, sizeof scale);
      return;
    case ScaleCode::kUE4M3: {
      uint8_t nearest = 0;
      for (uint8_t code = 1; code < 0x7f; ++code) {
        const auto error = [&](uint8_t candidate) { return std::fabs(ue4m3_half(candidate) - std::fabs(scale)); };
        if (error(code) < error(nearest)) nearest = code;
      }
      for (int g = 0; g < traits.block_elements / traits.group; ++g) at[g] = static_cast<std::byte>(nearest);
      return;
    }
  }
}

}  // namespace gabbro::quant
