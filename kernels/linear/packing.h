// Layout of quantized weight matrices in device memory: a row-major matrix [N, K] becomes planes, each row-major, so
// that the lanes of a wave read consecutive 16 bytes. With b = K/32 blocks of 32 codes in a row:
//   8 bits: one plane of 32 bytes a block.
//   4 bits: 16 bytes a block; byte i holds codes i (low) and i + 16 (high).
//   2 bits: 8 bytes a block; byte i holds codes i, i + 8, i + 16, i + 24, from the lowest bits up.
//   1 bit:  4 bytes a block; byte i holds codes i, i + 4, ... i + 28.
// 3 bits are planes of 2 and 1, 5 of 4 and 1, 6 of 4 and 2: the second holds the upper bits.
//   scales: for each block its f16, bf16 or f32 scale, then its f16 minimum if there is one; or, if a format has
//   sub-scales, the i8 sub-scales of its groups, then the u8 sub-minimums, and in a separate plane the f16 scale, and
//   minimum, of each 256. One load of up to four bytes brings all that a block has of either plane.
// The same for every chip.
#pragma once

#include "include/gabbro/quant_traits.h"
#include "kernels/gpu/types.h"

namespace gabbro::gpu {

// The traits of a format (include/gabbro/quant_traits.h) that kernels are specialized by.
struct Packing {
  int bits;
  int group;  // codes that share a scale: 16 or 32
  int zero;   // the code of level 0; 0 with a codebook, whose levels are signed
  bool minimum;
  bool sub_scales;
  bool codebook;
  bool bfloat_scale;         // scales are bf16, not f16
  int scale_shift;           // stored scales are 2^scale_shift times the levels' scales
  u64 low_levels = 0;        // codebook: levels 0 to 7, a byte each
  u64 high_levels = 0;       // 8 to 15
  bool float_scale = false;  // scales are f32
  bool zero_points = false;  // the minimum counts in units of the scale
  bool e4m3 = false;         // codes are floats of 8 bits
  // Codebook of more than 8 bits: 256 times the levels above, plus these.
  bool wide = false;
  u64 low_rests = 0;   // of levels 0 to 7
  u64 high_rests = 0;  // of 8 to 15

  constexpr bool operator==(const Packing&) const = default;
  constexpr int low_bits() const { return bits == 8 ? 8 : bits >= 4 ? 4 : 2; }
  constexpr int high_bits() const { return bits - low_bits(); }
  constexpr int scale_bytes() const {  // of a block
    return (sub_scales ? 32 / group : float_scale ? 4 : 2) * (minimum ? 2 : 1);
  }
  constexpr int super_bytes() const { return minimum ? 4 : 2; }  // of 256 codes
};

inline constexpr int kBlock = 32;        // codes that are handled together
inline constexpr int kSuperBlock = 256;  // codes under one pair of f16, where there are sub-scales

// Offsets of the planes from the start of the matrix, each a multiple of 256; 0: no such plane, but for the first.
struct PackedLayout {
  i64 low = 0, high = 0, scales = 0, super_scales = 0;
  i64 bytes = 0;
};

constexpr PackedLayout packed_layout(const Packing& p, i64 rows, i64 columns) {
  PackedLayout layout;
  i64 at = 0;
  const auto plane = [&](i64 bytes_of_row) {
    const i64 begin = at;
    at += (rows * bytes_of_row + 255) / 256 * 256;
    return begin;
  };
  layout.low = plane(columns * p.low_bits() / 8);
  if (p.high_bits() > 0) layout.high = plane(columns * p.high_bits() / 8);
  layout.scales = plane(columns / kBlock * p.scale_bytes());
  if (p.sub_scales) layout.super_scales = plane(columns / kSuperBlock * p.super_bytes());
  layout.bytes = at;
  return layout;
}

constexpr u64 level_bytes(const QuantLevels& levels, int first) {
  u64 bytes = 0;
  for (int i = 0; levels.used && i < 8; ++i)
    bytes |= static_cast<u64>(static_cast<u8>(levels.value[first + i])) << (8 * i);
  return bytes;
}

constexpr u64 rest_bytes(const QuantLevels& levels, int first) {
  u64 bytes = 0;
  for (int i = 0; levels.wide && i < 8; ++i)
    bytes |= static_cast<u64>(static_cast<u8>(levels.low[first + i])) << (8 * i);
  return bytes;
}

constexpr Packing packing_of(const QuantTraits& t) {
  return {.bits = t.bits,
          .group = t.group,
          .zero = t.levels.used || t.e4m3 ? 0
                  : t.bits == 8           ? t.zero - 128
                                          : t.zero,
          .minimum = t.has_minimum(),
          .sub_scales = t.sub_scales,
          .codebook = t.levels.used,
          .bfloat_scale = t.scale == ScaleCode::kE8M0,
          .scale_shift = t.scale_shift,
          .low_levels = level_bytes(t.levels, 0),
          .high_levels = level_bytes(t.levels, 8),
          .float_scale = t.scale == ScaleCode::kF32,
          .zero_points = t.zero_points,
          .e4m3 = t.e4m3,
          .wide = t.levels.wide,
          .low_rests = rest_bytes(t.levels, 0),
          .high_rests = rest_bytes(t.levels, 8)};
}

// X(format) for each packing that has kernels, a row each: the kernels are named after the format, and formats of equal
// packing share them. Other formats are dequantized to f16.
#define GABBRO_FOR_EACH_FORMAT(X)       \
  X(q4_0)                               \
  X(q4_1)                               \
  X(q5_0)                               \
  X(q5_1)                               \
  X(q8_0)                               \
  X(q2_k)                               \
  X(q3_k)                               \
  X(q4_k)                               \
  X(q5_k)                               \
  X(q6_k)                               \
  X(iq4_nl)                             \
  X(iq4_xs)                             \
  X(mxfp4)                              \
  X(iq3_s)                              \
  X(iq3_xxs)                            \
  X(iq2_s) /* and IQ2_XXS, IQ2_XS */    \
  X(iq1_s) /* and IQ1_M */              \
  X(q2_0)  /* and Q1_0, TQ1_0, TQ2_0 */ \
  X(int4_zp)                            \
  X(int8_f32)                           \
  X(fp8_e4m3)                           \
  X(nf4)

// Packing of a row, as a template argument of kernels.
#define GABBRO_PACKING(name) gabbro::gpu::packing_of(gabbro::formats::name)

}  // namespace gabbro::gpu
