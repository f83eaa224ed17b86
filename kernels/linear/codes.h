// Blocks of 32 codes out of the planes of kernels/linear/packing.h, as eight words of four signed bytes: word j holds
// the codes of elements 4j to 4j + 3 (with a codebook their levels).
#pragma once

#include "kernels/gpu/gpu.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/packing.h"

namespace gabbro::gpu::GABBRO_GPU {

struct Codes {
  i32 word[8];
};

// Bytes of a table of 16 for four codes; kLow has the first eight.
template <u64 kLow, u64 kHigh>
GPU_FUNCTION inline u32 look_up_bytes(u32 codes) {
  const u32 indices = codes & 0x07070707;
  const u32 low = select_bytes(static_cast<u32>(kLow), static_cast<u32>(kLow >> 32), indices);
  const u32 high = select_bytes(static_cast<u32>(kHigh), static_cast<u32>(kHigh >> 32), indices);
  const u32 is_high = (codes >> 3 & 0x01010101) * 0xff;
  return low ^ ((low ^ high) & is_high);
}

// The codebook's levels for four codes.
template <Packing p>
GPU_FUNCTION inline u32 codebook_levels(u32 codes) {
  return look_up_bytes<p.low_levels, p.high_levels>(codes);
}

// Four E4M3 codes as f16 of 2⁻⁸ times their values: the same bits, seven places up. Codes 0 and 2 are the first pair, 1
// and 3 the second.
GPU_FUNCTION inline void dealt_f16_of_e4m3(u32 codes, u32* f16) {
  f16[0] = (codes << 8 & 0x80008000) | (codes << 7 & 0x3f803f80);
  f16[1] = (codes & 0x80008000) | (codes >> 1 & 0x3f803f80);
}
// As above, with the bytes in order.
GPU_FUNCTION inline void f16_of_e4m3(u32 codes, u32* f16) {
  u32 dealt[2];
  dealt_f16_of_e4m3(codes, dealt);
  f16[0] = (dealt[0] & 0xffff) | dealt[1] << 16;
  f16[1] = dealt[0] >> 16 | (dealt[1] & 0xffff0000);
}

// Sum of the products of four E4M3 codes, times 2⁻⁸, with four signed bytes.
GPU_FUNCTION inline float dot4_e4m3(u32 codes, u32 x, float sum) {
  u32 f16[2];
  dealt_f16_of_e4m3(codes, f16);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float weight = to_float(Half{static_cast<u16>(f16[i % 2] >> (i / 2 * 16))});
    sum = fma(weight, static_cast<float>(static_cast<i8>(x >> (8 * i))), sum);
  }
  return sum;
}
inline constexpr float kE4m3Unit = 256;

// The bits of a block in the layout of the planes.
template <Packing p>
struct PlaneWords {
  u32 low[p.low_bits()];
  u32 high[p.high_bits() > 0 ? p.high_bits() : 1];
};

template <int width, bool streamed>
GPU_FUNCTION inline void load_plane(const u8* plane, i64 block, u32* words) {
  const u8* from = plane + block * 4 * width;
  if constexpr (width >= 4) {
#pragma unroll
    for (int q = 0; q < width / 4; ++q) {
      const Vec16 vec = streamed ? load_streamed(from + q * 16) : load_vec16(from + q * 16);
#pragma unroll
      for (int w = 0; w < 4; ++w) words[q * 4 + w] = vec.word[w];
    }
  } else {
#pragma unroll
    for (int w = 0; w < width; ++w) words[w] = reinterpret_cast<const u32*>(from)[w];
  }
}

// Block `block` of the matrix, counted over all rows. `streamed`: see load_streamed().
template <Packing p, bool streamed = false>
GPU_FUNCTION inline PlaneWords<p> load_planes(const LinearMatrix& m, i64 block) {
  PlaneWords<p> planes{};
  load_plane<p.low_bits(), streamed>(m.low, block, planes.low);
  if constexpr (p.high_bits() > 0) load_plane<p.high_bits(), streamed>(m.high, block, planes.high);
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
  for (int w = 0; w < 8; ++w) {
    codes.word[w] = static_cast<i32>(p.codebook && !p.wide ? codebook_levels<p>(words[w]) : words[w]);
  }
  return codes;  // of a wide codebook the codes themselves
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
  if constexpr (p.float_scale) return bits_to_float(raw.block);
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
  if constexpr (p.zero_points) return minimum * scale_of<p>(raw, g);
  return p.sub_scales ? minimum * static_cast<float>(static_cast<u8>(raw.block >> 8 * (kBlock / p.group + g)))
                      : minimum;
}

// For a group that is counted over all rows.
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
  Codes codes;                // of a wide codebook the levels over 256
  u32 rests[p.wide ? 8 : 1];  // and what they lack
  float scales[kGroups];
  float minimums[kGroups];
};

template <Packing p, bool streamed = false>
GPU_FUNCTION inline RawBlock<p> load_raw(const LinearMatrix& m, i64 block) {
  return {load_planes<p, streamed>(m, block), load_scales<p>(m, block)};
}

template <Packing p>
GPU_FUNCTION inline BlockOfRow<p> unpacked(const RawBlock<p>& raw) {
  BlockOfRow<p> block;
  block.codes = codes_of<p>(raw.planes);
  if constexpr (p.wide) {
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      const u32 codes = static_cast<u32>(block.codes.word[w]);
      block.codes.word[w] = static_cast<i32>(codebook_levels<p>(codes));
      block.rests[w] = look_up_bytes<p.low_rests, p.high_rests>(codes);
    }
  }
#pragma unroll
  for (int g = 0; g < BlockOfRow<p>::kGroups; ++g) {
    block.scales[g] = scale_of<p>(raw.scales, g);
    if constexpr (p.minimum) block.minimums[g] = minimum_of<p>(raw.scales, g);
  }
  return block;
}

// The product of `kCount` words of the block, from `first` on, with activations of 8 bits, x(word), whose sum is given.
template <Packing p, int kCount, class Activations>
GPU_FUNCTION inline float dot_codes(const BlockOfRow<p>& block, int first, i32 x_sum, const Activations& x) {
  if constexpr (p.e4m3) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum = dot4_e4m3(static_cast<u32>(block.codes.word[first + i]), x(first + i), sum);
    return sum * kE4m3Unit;
  } else {
    i32 sum = -p.zero * x_sum, high = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const i32 four = static_cast<i32>(x(first + i));
      if constexpr (p.wide) {
        high = dot4(block.codes.word[first + i], four, high);
        sum = dot4(static_cast<i32>(block.rests[first + i]), four, sum);
      } else {
        sum = dot4(block.codes.word[first + i], four, sum);
      }
    }
    return static_cast<float>(p.wide ? 256 * high + sum : sum);
  }
}

// Element i of four of a block's codes as a level.
template <Packing p>
GPU_FUNCTION inline float level_of(i32 codes, int i) {
  const u32 code = static_cast<u32>(codes) >> (8 * i) & 0xff;
  if constexpr (p.e4m3) {
    return kE4m3Unit * to_float(Half{static_cast<u16>((code & 0x80) << 8 | (code & 0x7f) << 7)});
  } else if constexpr (p.wide) {
    const u32 high = codebook_levels<p>(code), rest = look_up_bytes<p.low_rests, p.high_rests>(code);
    return static_cast<float>(256 * static_cast<i8>(high) + static_cast<i8>(rest));
  } else {
    return static_cast<float>(static_cast<i8>(code) - p.zero);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
