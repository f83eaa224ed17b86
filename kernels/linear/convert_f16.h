// Weights and activations as f16, for matrix cores.
#pragma once

#include "kernels/gpu/matrix.h"
#include "kernels/linear/codes.h"

namespace gabbro::gpu::GABBRO_GPU {

// The power of two by which a row whose largest element is `peak` is multiplied, and what undoes it: see
// ConvertRowsArgs. 2^e <= peak < 2^(e + 1), as f32's biased exponent; of a row that is not finite the largest. Most
// rows need nothing, the others are multiplied by 2^(14 - e).
struct F16Scale {
  float factor, undone_by;
};
GPU_FUNCTION inline F16Scale f16_scale(float peak) {
  u32 exponent = min_of(max_of(float_to_bits(peak) >> 23, 15u), 254u);
  if (exponent >= 127 - 4 && exponent < 127 + 15) exponent = 127 + 14;
  return {bits_to_float((268 - exponent) << 23), bits_to_float((exponent - 14) << 23)};
}

// E4M3 codes as convert_codes() gives them.
GPU_FUNCTION inline void convert_e4m3(const Codes& codes, int first, int count, float scale, u32* f16) {
  scale *= kWeightScale * kE4m3Unit;
  const u32 factor = pack_f16x2(scale, scale);
#pragma unroll
  for (int w = 0; w < count; ++w) {
    f16_of_e4m3(static_cast<u32>(codes.word[first + w]), f16 + 2 * w);
#pragma unroll
    for (int i = 2 * w; i < 2 * w + 2; ++i) f16[i] = fma_f16x2(f16[i], factor, 0);
  }
}
// Also for codebooks with levels wider than 8 bits.
template <Packing p>
GPU_FUNCTION inline void convert_levels(const Codes& codes, int first, int count, float scale, u32* f16) {
  scale *= kWeightScale;
#pragma unroll
  for (int w = 0; w < count; ++w) {
    const i32 four = codes.word[first + w];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      f16[2 * w + i] = pack_f16x2(scale * level_of<p>(four, 2 * i), scale * level_of<p>(four, 2 * i + 1));
    }
  }
}

// `count` words of a block's codes from word `first` on, all of one group, as f16 values of kWeightScale times the
// weight: two pairs a word.
template <Packing p>
GPU_FUNCTION inline void convert_codes(const Codes& codes, int first, int count, float scale, float minimum, u32* f16) {
  if constexpr (p.e4m3) return convert_e4m3(codes, first, count, scale, f16);
  if constexpr (p.wide) return convert_levels<p>(codes, first, count, scale, f16);
  constexpr bool kSigned = p.bits == 8 || p.codebook;
  // The half -(1024 + the code of level 0), of what spread_bytes() gives.
  constexpr u32 kMinusZero = 0xe400 | (kSigned ? 128 : p.zero);
  scale *= kWeightScale;
  minimum = p.minimum ? minimum * kWeightScale : 0;
  const u32 factor = pack_f16x2(scale, scale), summand = pack_f16x2(minimum, minimum);
#pragma unroll
  for (int w = 0; w < count; ++w) {
    spread_bytes(static_cast<u32>(codes.word[first + w]) ^ (kSigned ? 0x80808080 : 0), f16 + 2 * w);
#pragma unroll
    for (int i = 2 * w; i < 2 * w + 2; ++i) {
      f16[i] = fma_f16x2(add_f16x2(f16[i], kMinusZero * 0x10001), factor, summand);
    }
  }
}

// A block's codes as f16 values of kWeightScale times the weight; with the scales and minimums of its groups.
template <Packing p>
GPU_FUNCTION inline void convert_block(const Codes& codes, const float* scales, const float* minimums, u32 (&f16)[16]) {
  constexpr int kWords = 8 * p.group / kBlock;  // of a group
#pragma unroll
  for (int g = 0; g < kBlock / p.group; ++g) {
    convert_codes<p>(codes, g * kWords, kWords, scales[g], p.minimum ? minimums[g] : 0, f16 + 2 * g * kWords);
  }
}
template <Packing p>
GPU_FUNCTION inline void store_block(const Codes& codes, const float* scales, const float* minimums, Half* to) {
  u32 f16[16];
  convert_block<p>(codes, scales, minimums, f16);
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    store_vec16(to + q * 8, Vec16{f16[4 * q], f16[4 * q + 1], f16[4 * q + 2], f16[4 * q + 3]});
  }
}

// f16 holds all bf16 values between 6.1e-5 and 65504 exactly. Smaller ones lose bits (steps of 6e-8), larger ones
// become infinite; weights have neither.
GPU_FUNCTION inline Vec16 f16_of_bf16(const Vec16& bfloats) {
  Vec16 f16;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const u32 pair = bfloats.word[w];
    f16.word[w] = pack_f16x2(bits_to_float(pair << 16), bits_to_float(pair & 0xffff0000));
  }
  return f16;
}

}  // namespace gabbro::gpu::GABBRO_GPU
