// IEEE binary16 and bfloat16 as storage types: bits, and exact conversions. Arithmetic is done in float.
#pragma once

#include <bit>
#include <cstdint>

namespace gabbro {

// Rounds to nearest even; overflow gives infinity, NaN stays NaN (quiet).
constexpr uint16_t float_to_half_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds past 65504
  if (magnitude < 0x38800000u) {  // subnormal or zero: let the FPU round by adding a power of two
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

constexpr float half_bits_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x0400u) {  // subnormal: magnitude · 2⁻²⁴
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

// Rounds to nearest even; NaN stays NaN (quiet).
constexpr uint16_t float_to_bfloat_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float bfloat_bits_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

struct Half {
  uint16_t bits;
  Half() = default;
  constexpr explicit Half(float value) : bits(float_to_half_bits(value)) {}
  constexpr explicit operator float() const { return half_bits_to_float(bits); }
};

struct BFloat {
  uint16_t bits;
  BFloat() = default;
  constexpr explicit BFloat(float value) : bits(float_to_bfloat_bits(value)) {}
  constexpr explicit operator float() const { return bfloat_bits_to_float(bits); }
};

}  // namespace gabbro
