// Blocks of 32 codes out of the planes of kernels/packing.h, as eight words of four signed bytes: word j holds those of
// elements 4j to 4j + 3 (with a codebook their levels).
#pragma once

#include "kernels/gpu/gpu.h"
#include "kernels/linear.h"
#include "kernels/packing.h"

namespace gabbro::gpu::GABBRO_GPU {

struct Codes {
  i32 word[8];
};

// The levels of IQ4_NL and IQ4_XS for four codes: -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113.
GPU_FUNCTION inline u32 codebook_levels(u32 codes) {
  constexpr u64 kLow = 0xf6eaddcfbfad9881, kHigh = 0x7159453526190d01;
  u32 levels = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const u32 code = codes >> shift & 15;
    levels |= static_cast<u32>((code < 8 ? kLow : kHigh) >> (code % 8 * 8) & 0xff) << shift;
  }
  return levels;
}

// Bits of a plane of `width` bits, moved to bit `at` of each code.
template <int width>
GPU_FUNCTION inline void add_plane(const u8* plane, i64 block, int at, u32* words) {
  const u8* from = plane + block * 4 * width;
  constexpr int kFields = 8 / width;
  constexpr u32 kMask = 0x01010101u * ((1u << width) - 1);
  if constexpr (width == 4) {
    const Quad quad = load_quad(from);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      words[w] |= (quad.word[w] & kMask) << at;
      words[4 + w] |= (quad.word[w] >> 4 & kMask) << at;
    }
  } else {
    const u32* parts = reinterpret_cast<const u32*>(from);
#pragma unroll
    for (int w = 0; w < width; ++w) {
#pragma unroll
      for (int field = 0; field < kFields; ++field) {
        words[field * width + w] |= (parts[w] >> (field * width) & kMask) << at;
      }
    }
  }
}

// Block `block` of the matrix, counted over all rows.
template <Packing p>
GPU_FUNCTION inline Codes load_codes(const LinearMatrix& m, i64 block) {
  u32 words[8] = {};
  if constexpr (p.bits == 8) {
    const Quad first = load_quad(m.low + block * 32), second = load_quad(m.low + block * 32 + 16);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      words[w] = first.word[w];
      words[4 + w] = second.word[w];
    }
  } else {
    add_plane<p.low_bits()>(m.low, block, 0, words);
    if constexpr (p.high_bits() > 0) add_plane<p.high_bits()>(m.high, block, p.low_bits(), words);
  }
  Codes codes;
#pragma unroll
  for (int w = 0; w < 8; ++w) codes.word[w] = static_cast<i32>(p.codebook ? codebook_levels(words[w]) : words[w]);
  return codes;
}

GPU_FUNCTION inline float half_at(const u8* plane, i64 index) {
  return to_float(reinterpret_cast<const Half*>(plane)[index]);
}

// What a group's levels are multiplied by, and what is added to each. `group` is counted over all rows.
template <Packing p>
GPU_FUNCTION inline float group_scale(const LinearMatrix& m, i64 group) {
  if constexpr (!p.sub_scales) return half_at(m.scales, group);
  return half_at(m.super_scales, group / (kSuperBlock / p.group)) *
         static_cast<float>(reinterpret_cast<const i8*>(m.scales)[group]);
}
template <Packing p>
GPU_FUNCTION inline float group_minimum(const LinearMatrix& m, i64 group) {
  if constexpr (!p.sub_scales) return half_at(m.minimums, group);
  return half_at(m.super_minimums, group / (kSuperBlock / p.group)) * static_cast<float>(m.minimums[group]);
}

// A block of a row with what its groups are multiplied by.
template <Packing p>
struct BlockOfRow {
  static constexpr int kGroups = kBlock / p.group;
  Codes codes;
  float scales[kGroups];
  float minimums[kGroups];
};

template <Packing p>
GPU_FUNCTION inline BlockOfRow<p> load_block(const LinearMatrix& m, i64 block) {
  BlockOfRow<p> loaded;
  loaded.codes = load_codes<p>(m, block);
#pragma unroll
  for (int g = 0; g < BlockOfRow<p>::kGroups; ++g) {
    loaded.scales[g] = group_scale<p>(m, block * BlockOfRow<p>::kGroups + g);
    if constexpr (p.minimum) loaded.minimums[g] = group_minimum<p>(m, block * BlockOfRow<p>::kGroups + g);
  }
  return loaded;
}

}  // namespace gabbro::gpu::GABBRO_GPU
