// Blocks of 32 codes out of the planes of kernels/linear/packing.h, as eight words of four signed bytes: word j holds
// those of elements 4j to 4j + 3 (with a codebook their levels).
#pragma once

#include "kernels/gpu/gpu.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/packing.h"

namespace gabbro::gpu::GABBRO_GPU {

struct Codes {
  i32 word[8];
};

// The codebook's levels for four codes.
template <Packing p>
GPU_FUNCTION inline u32 codebook_levels(u32 codes) {
  constexpr u64 kLow = p.low_levels, kHigh = p.high_levels;
  u32 levels = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const u32 code = codes >> shift & 15;
    levels |= static_cast<u32>((code < 8 ? kLow : kHigh) >> (code % 8 * 8) & 0xff) << shift;
  }
  return levels;
}

// The bits of a block in the layout of the planes.
template <Packing p>
struct PlaneWords {
  u32 low[p.low_bits()];
  u32 high[p.high_bits() > 0 ? p.high_bits() : 1];
};

template <int width>
GPU_FUNCTION inline void load_plane(const u8* plane, i64 block, u32* words) {
  const u8* from = plane + block * 4 * width;
  if constexpr (width >= 4) {
#pragma unroll
    for (int q = 0; q < width / 4; ++q) {
      const Vec16 vec = load_vec16(from + q * 16);
#pragma unroll
      for (int w = 0; w < 4; ++w) words[q * 4 + w] = vec.word[w];
    }
  } else {
#pragma unroll
    for (int w = 0; w < width; ++w) words[w] = reinterpret_cast<const u32*>(from)[w];
  }
}

// Block `block` of the matrix, counted over all rows.
template <Packing p>
GPU_FUNCTION inline PlaneWords<p> load_planes(const LinearMatrix& m, i64 block) {
  PlaneWords<p> planes{};
  load_plane<p.low_bits()>(m.low, block, planes.low);
  if constexpr (p.high_bits() > 0) load_plane<p.high_bits()>(m.high, block, planes.high);
  return planes;
}

// Bits of a plane of `width` bits, moved to bit `at` of each code.
template <int width>
GPU_FUNCTION inline void add_plane(const u32* plane, int at, u32* words) {
  constexpr u32 kMask = 0x01010101u * ((1u << width) - 1);
#pragma unroll
  for (int w = 0; w < width; ++w) {
#pragma unroll
    for (int field = 0; field < 8 / width; ++field) {
      words[field * width + w] |= (plane[w] >> (field * width) & kMask) << at;
    }
  }
}

template <Packing p>
GPU_FUNCTION inline Codes codes_of(const PlaneWords<p>& planes) {
  u32 words[8] = {};
  if constexpr (p.bits == 8) {
#pragma unroll
    for (int w = 0; w < 8; ++w) words[w] = planes.low[w];
  } else {
    add_plane<p.low_bits()>(planes.low, 0, words);
    if constexpr (p.high_bits() > 0) add_plane<p.high_bits()>(planes.high, p.low_bits(), words);
  }
  Codes codes;
#pragma unroll
  for (int w = 0; w < 8; ++w) codes.word[w] = static_cast<i32>(p.codebook ? codebook_levels<p>(words[w]) : words[w]);
  return codes;
}

template <Packing p>
GPU_FUNCTION inline Codes load_codes(const LinearMatrix& m, i64 block) {
  return codes_of<p>(load_planes<p>(m, block));
}

// The scales of a block in the layout of the planes (kernels/linear/packing.h).
template <Packing p>
struct RawScales {
  u32 block, super;
};

template <int bytes>
GPU_FUNCTION inline u32 load_record(const u8* plane, i64 index) {
  if constexpr (bytes == 4) return reinterpret_cast<const u32*>(plane)[index];
  if constexpr (bytes == 2) return reinterpret_cast<const u16*>(plane)[index];
  return plane[index];
}

template <Packing p>
GPU_FUNCTION inline RawScales<p> load_scales(const LinearMatrix& m, i64 block) {
  RawScales<p> raw = {load_record<p.scale_bytes()>(m.scales, block), 0};
  if constexpr (p.sub_scales) raw.super = load_record<p.super_bytes()>(m.super_scales, block / (kSuperBlock / kBlock));
  return raw;
}

// Scale of the levels of group `g` of the block, and the summand of each.
template <Packing p>
GPU_FUNCTION inline float scale_of(const RawScales<p>& raw, int g) {
  const u16 bits = static_cast<u16>(p.sub_scales ? raw.super : raw.block);
  float scale = 0;
  if constexpr (p.bfloat_scale) {
    scale = to_float(BFloat{bits});
  } else {
    scale = to_float(Half{bits});
  }
  if constexpr (p.scale_shift != 0) scale *= 1.0f / (1 << p.scale_shift);
  return p.sub_scales ? scale * static_cast<float>(static_cast<i8>(raw.block >> 8 * g)) : scale;
}
template <Packing p>
GPU_FUNCTION inline float minimum_of(const RawScales<p>& raw, int g) {
  const float minimum = to_float(Half{static_cast<u16>((p.sub_scales ? raw.super : raw.block) >> 16)});
  return p.sub_scales ? minimum * static_cast<float>(static_cast<u8>(raw.block >> 8 * (kBlock / p.group + g)))
                      : minimum;
}

// The same of a group that is counted over all rows.
template <Packing p>
GPU_FUNCTION inline float group_scale(const LinearMatrix& m, i64 group) {
  return scale_of<p>(load_scales<p>(m, group * p.group / kBlock), static_cast<int>(group % (kBlock / p.group)));
}
template <Packing p>
GPU_FUNCTION inline float group_minimum(const LinearMatrix& m, i64 group) {
  return minimum_of<p>(load_scales<p>(m, group * p.group / kBlock), static_cast<int>(group % (kBlock / p.group)));
}

// Row `row` of a matrix with `blocks` blocks in a row, as a matrix.
template <Packing p>
GPU_FUNCTION inline LinearMatrix one_row(const LinearMatrix& m, i64 row, i32 blocks) {
  const i64 first = row * blocks;
  LinearMatrix result = m;
  result.low += first * 4 * p.low_bits();
  if constexpr (p.high_bits() > 0) result.high += first * 4 * p.high_bits();
  result.scales += first * p.scale_bytes();
  if constexpr (p.sub_scales) result.super_scales += first / (kSuperBlock / kBlock) * p.super_bytes();
  return result;
}

// A block in the layout of the planes, with all needed to unpack it.
template <Packing p>
struct RawBlock {
  PlaneWords<p> planes;
  RawScales<p> scales;
};
template <Packing p>
struct BlockOfRow {
  static constexpr int kGroups = kBlock / p.group;
  Codes codes;
  float scales[kGroups];
  float minimums[kGroups];
};

template <Packing p>
GPU_FUNCTION inline RawBlock<p> load_raw(const LinearMatrix& m, i64 block) {
  return {load_planes<p>(m, block), load_scales<p>(m, block)};
}

template <Packing p>
GPU_FUNCTION inline BlockOfRow<p> unpacked(const RawBlock<p>& raw) {
  BlockOfRow<p> block;
  block.codes = codes_of<p>(raw.planes);
#pragma unroll
  for (int g = 0; g < BlockOfRow<p>::kGroups; ++g) {
    block.scales[g] = scale_of<p>(raw.scales, g);
    if constexpr (p.minimum) block.minimums[g] = minimum_of<p>(raw.scales, g);
  }
  return block;
}

}  // namespace gabbro::gpu::GABBRO_GPU
