// Weights as f16, for matrix cores.
#pragma once

#include "kernels/codes.h"
#include "kernels/gpu/matrix.h"

namespace gabbro::gpu::GABBRO_GPU {

// A block's codes as f16 values of kWeightScale times the weight; scales and minimums are those of its groups.
template <Packing p>
GPU_FUNCTION inline void store_block(const Codes& codes, const float* scales, const float* minimums, Half* to) {
  constexpr int kWords = 8 * p.group / kBlock;  // of a group
  constexpr bool kSigned = p.bits == 8 || p.codebook;
  // The half -(1024 + the code of level 0), of what spread_bytes() gives.
  constexpr u32 kMinusZero = 0xe400 | (kSigned ? 128 : p.zero);
  u32 halves[16];
#pragma unroll
  for (int g = 0; g < kBlock / p.group; ++g) {
    const float scale = scales[g] * kWeightScale, minimum = p.minimum ? minimums[g] * kWeightScale : 0;
    const u32 factor = pack_halves(scale, scale), summand = pack_halves(minimum, minimum);
#pragma unroll
    for (int w = g * kWords; w < (g + 1) * kWords; ++w) {
      spread_bytes(static_cast<u32>(codes.word[w]) ^ (kSigned ? 0x80808080 : 0), halves + 2 * w);
#pragma unroll
      for (int i = 2 * w; i < 2 * w + 2; ++i) {
        halves[i] = fma_halves(add_halves(halves[i], kMinusZero * 0x10001), factor, summand);
      }
    }
  }
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    store_quad(to + q * 8, Quad{halves[4 * q], halves[4 * q + 1], halves[4 * q + 2], halves[4 * q + 3]});
  }
}

// f16 holds all bf16 values between 6.1e-5 and 65504 exactly. Smaller ones lose bits (steps of 6e-8), larger ones
// become infinite; weights have neither.
GPU_FUNCTION inline Quad halves_of_bfloats(const Quad& bfloats) {
  Quad halves;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const u32 pair = bfloats.word[w];
    halves.word[w] = pack_halves(bits_to_float(pair << 16), bits_to_float(pair & 0xffff0000));
  }
  return halves;
}

}  // namespace gabbro::gpu::GABBRO_GPU
