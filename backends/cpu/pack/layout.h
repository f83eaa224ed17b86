// Layout of packed weights in memory; the same for every instruction set.
// A matrix [N, K] is cut into panels of 16 rows (the last is filled up with rows of zeros). In a panel, four
// consecutive k of the 16 rows make a vector of 64 codes, byte 4·row + k%4: what two dot2 take. Eight vectors are a
// chunk of 32 k, stored in bit planes that together have the bits of the format (pack/codes.h): 64·bits bytes.
//   Formats without sub-scales: pairs of chunks (the last may be alone), each a header and its codes. Header: per chunk
//     f16 or bf16 scale [16], f16 minimum [16] if any, or f32 scale [16]; padded to 64 bytes where a chunk is alone.
//     One stream, front to back: with all headers in front of the panel, a panel of K = 576 came from memory at a third
//     of the speed (Zen 4).
//   Formats with sub-scales, of 256 elements a block: per block 8 chunks, i8 sub-scales [256/group][16], u8
//   sub-minimums likewise if any,
//     f32 scale [16], f32 minimum [16] if any.
//   f32, f16, bf16 have no packed form; a GEMM with many tokens packs panels of elements [K][16] itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gabbro/dtype.h"

namespace gabbro::cpu {

inline constexpr int kPanelRows = 16;
inline constexpr int kChunk = 32;  // k of a chunk, and of the scale of quantized activations

// The traits of a format (include/gabbro/quant_traits.h) that kernels are specialized by. `zero` is the code of level
// 0; with a codebook it is what its levels are shifted by, to be unsigned.
struct Packing {
  int bits;
  int group;
  int zero;
  bool minimum;
  bool sub_scales;
  bool bfloat_scale;   // the scales of chunks are bf16, not f16
  bool float_scale;    // or f32
  bool zero_points;    // the minimum counts in units of the scale
  bool e4m3;           // codes are floats of 8 bits, and chunks [32][16] of them
  QuantLevels levels;  // codebook
  bool operator==(const Packing&) const = default;
};

constexpr Packing packing_of(DType dtype) {
  if (!is_quantized(dtype)) return {};
  const QuantTraits& t = quant_traits(dtype);
  return {.bits = t.bits,
          .group = t.group,
          .zero = t.levels.wide   ? 0
                  : t.levels.used ? 128
                                  : t.zero,
          .minimum = t.has_minimum(),
          .sub_scales = t.sub_scales,
          .bfloat_scale = t.scale == ScaleCode::kE8M0,
          .float_scale = t.scale == ScaleCode::kF32,
          .zero_points = t.zero_points,
          .e4m3 = t.e4m3,
          .levels = t.levels};
}

// Formats whose packing has kernels, a row each; formats of equal packing share them.
inline constexpr DType kPackedFormats[] = {
    DType::q4_0,    DType::q4_1,     DType::q5_0,     DType::q5_1,  DType::q8_0,
    DType::q2_k,    DType::q3_k,     DType::q4_k,     DType::q5_k,  DType::q6_k,
    DType::iq4_nl,  DType::iq4_xs,   DType::mxfp4,    DType::iq3_s, DType::iq3_xxs,
    DType::iq2_s,  // and IQ2_XXS, IQ2_XS
    DType::iq1_s,  // and IQ1_M
    DType::q2_0,   // and Q1_0, TQ1_0, TQ2_0
    DType::int4_zp, DType::int8_f32, DType::fp8_e4m3, DType::nf4,
};

// Whether a quantized format is packed into panels. The others are dequantized (backends/common/dequantized.h).
constexpr bool has_panels(DType dtype) {
  const Packing packing = packing_of(dtype);
  for (const DType format : kPackedFormats) {
    if (packing_of(format) == packing) return is_quantized(dtype);
  }
  return false;
}

// Dtypes of weights of `linear`, `embedding` and `dequantize`: packed if quantized, else plain and in place.
constexpr bool is_weight_dtype(DType dtype) {
  return is_quantized(dtype) || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

constexpr int64_t chunk_bytes(Packing p) { return 64 * p.bits; }

// Formats without sub-scales.
constexpr int64_t header_step(Packing p) { return p.minimum || p.float_scale ? 64 : 32; }
constexpr int64_t header_bytes(Packing p, int64_t chunks) { return chunks > 1 ? 2 * header_step(p) : 64; }
constexpr int64_t pair_bytes(Packing p) { return header_bytes(p, 2) + 2 * chunk_bytes(p); }
constexpr int64_t small_scale_at(Packing p, int64_t chunk) {
  return chunk / 2 * pair_bytes(p) + chunk % 2 * header_step(p);
}
constexpr int64_t small_codes_at(Packing p, int64_t chunk, int64_t columns) {
  const int64_t first = chunk / 2 * 2;  // of the pair
  return chunk / 2 * pair_bytes(p) + header_bytes(p, columns / kChunk - first) + chunk % 2 * chunk_bytes(p);
}

// Formats with sub-scales: offsets in a block.
constexpr int64_t sub_scales_at(Packing p) { return 8 * chunk_bytes(p); }
constexpr int64_t sub_minimums_at(Packing p) { return sub_scales_at(p) + 256 / p.group * kPanelRows; }
constexpr int64_t scale_at(Packing p) { return sub_minimums_at(p) + (p.minimum ? 256 / p.group * kPanelRows : 0); }
constexpr int64_t minimum_at(Packing p) { return scale_at(p) + 64; }
constexpr int64_t block_bytes(Packing p) { return minimum_at(p) + (p.minimum ? 64 : 0); }

constexpr int64_t panel_bytes(DType dtype, int64_t columns) {
  if (!is_quantized(dtype)) return columns * kPanelRows * dtype_info(dtype).block_bytes;
  const Packing p = packing_of(dtype);
  if (p.sub_scales) return columns / 256 * block_bytes(p);
  const int64_t chunks = columns / kChunk;
  return chunks / 2 * pair_bytes(p) + chunks % 2 * (header_bytes(p, 1) + chunk_bytes(p));
}

constexpr int64_t panel_count(int64_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }

}  // namespace gabbro::cpu
