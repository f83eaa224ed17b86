// Layout of quantized weight matrices in device memory: a row-major matrix [N, K] becomes planes, each row-major, so
// that the lanes of a wave read consecutive 16 bytes. With b = K/32 blocks of 32 codes in a row:
//   8 bits: one plane of 32 bytes a block.
//   4 bits: 16 bytes a block; byte i holds codes i (low) and i + 16 (high).
//   2 bits: 8 bytes a block; byte i holds codes i, i + 8, i + 16, i + 24, from the lowest bits up.
//   1 bit:  4 bytes a block; byte i holds codes i, i + 4, ... i + 28.
// 3 bits are planes of 2 and 1, 5 of 4 and 1, 6 of 4 and 2: the second holds the upper bits.
//   scales: for each block its f16 scale, then its f16 minimum if there is one; or, if a format has sub-scales, the i8
//   sub-scales of its groups, then the u8 sub-minimums, and in a separate plane the f16 scale, and minimum, of each
//   256. One load of up to four bytes brings all that a block has of either plane.
// The same for every chip.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

struct Packing {
  int bits;
  int group;  // codes that share a scale: 16 or 32
  int zero;   // the code of level 0; 0 with a codebook, whose levels are signed
  bool minimum;
  bool sub_scales;
  bool codebook;

  constexpr int low_bits() const { return bits == 8 ? 8 : bits >= 4 ? 4 : 2; }
  constexpr int high_bits() const { return bits - low_bits(); }
  constexpr int scale_bytes() const { return (sub_scales ? 32 / group : 2) * (minimum ? 2 : 1); }  // of a block
  constexpr int super_bytes() const { return minimum ? 4 : 2; }                                    // of 256 codes
};

inline constexpr int kBlock = 32;        // codes that are handled together
inline constexpr int kSuperBlock = 256;  // codes under one pair of f16, where there are sub-scales

// Offsets of the planes from the start of the matrix, each a multiple of 256; 0 where there is none but the first.
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

// The formats, in the order in which kernels are instantiated; the host finds a kernel by the format's name.
// clang-format off
inline constexpr Packing kQ4_0 =   {.bits = 4, .group = 32, .zero = 8,  .minimum = false, .sub_scales = false, .codebook = false};
inline constexpr Packing kQ4_1 =   {.bits = 4, .group = 32, .zero = 0,  .minimum = true,  .sub_scales = false, .codebook = false};
inline constexpr Packing kQ5_0 =   {.bits = 5, .group = 32, .zero = 16, .minimum = false, .sub_scales = false, .codebook = false};
inline constexpr Packing kQ5_1 =   {.bits = 5, .group = 32, .zero = 0,  .minimum = true,  .sub_scales = false, .codebook = false};
inline constexpr Packing kQ8_0 =   {.bits = 8, .group = 32, .zero = 0,  .minimum = false, .sub_scales = false, .codebook = false};
inline constexpr Packing kQ2_K =   {.bits = 2, .group = 16, .zero = 0,  .minimum = true,  .sub_scales = true,  .codebook = false};
inline constexpr Packing kQ3_K =   {.bits = 3, .group = 16, .zero = 4,  .minimum = false, .sub_scales = true,  .codebook = false};
inline constexpr Packing kQ4_K =   {.bits = 4, .group = 32, .zero = 0,  .minimum = true,  .sub_scales = true,  .codebook = false};
inline constexpr Packing kQ5_K =   {.bits = 5, .group = 32, .zero = 0,  .minimum = true,  .sub_scales = true,  .codebook = false};
inline constexpr Packing kQ6_K =   {.bits = 6, .group = 16, .zero = 32, .minimum = false, .sub_scales = true,  .codebook = false};
inline constexpr Packing kIQ4_NL = {.bits = 4, .group = 32, .zero = 0,  .minimum = false, .sub_scales = false, .codebook = true};
inline constexpr Packing kIQ4_XS = {.bits = 4, .group = 32, .zero = 0,  .minimum = false, .sub_scales = true,  .codebook = true};
// clang-format on

// X(name, packing) for each of them.
#define GABBRO_FOR_EACH_FORMAT(X) \
  X(q4_0, kQ4_0)                  \
  X(q4_1, kQ4_1)                  \
  X(q5_0, kQ5_0)                  \
  X(q5_1, kQ5_1)                  \
  X(q8_0, kQ8_0)                  \
  X(q2_k, kQ2_K)                  \
  X(q3_k, kQ3_K)                  \
  X(q4_k, kQ4_K)                  \
  X(q5_k, kQ5_K)                  \
  X(q6_k, kQ6_K)                  \
  X(iq4_nl, kIQ4_NL)              \
  X(iq4_xs, kIQ4_XS)

}  // namespace gabbro::gpu
