// One token in a block's memory, rounded to what quantized weights are multiplied with, and these products.
#pragma once

#include "kernels/gpu/matrix.h"
#include "kernels/linear/codes.h"

namespace gabbro::gpu::GABBRO_GPU {

// 32 elements of x in the block's memory: codes in ±127 with a scale (the scheme of llama.cpp's q8_1). 48 bytes, so
// that the lanes of a wave meet in no bank.
struct RoundedBlock {
  Vec16 low, high;  // codes
  float scale;
  i32 sums[2];  // of the codes of each half
  i32 unused;
};

// For weights that are floats, as f16 in ±1 with a scale; of each four elements the pairs 0 and 2, 1 and 3.
struct HalfBlock {
  Vec16 pairs[4];
  float scale;
  u32 unused[3];
};
template <bool is_float>
struct TokenBlock {
  using Type = RoundedBlock;
};
template <>
struct TokenBlock<true> {
  using Type = HalfBlock;
};

// The largest magnitude of the 32 elements; this lane has four of them.
GPU_FUNCTION inline float block_peak(const float* values) {
  float peak = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) peak = max_of(peak, abs(values[i]));
  for (u32 step = 1; step < 8; step *= 2) peak = max_of(peak, shuffle_xor(peak, step));
  return peak;
}
inline constexpr float kLeastPeak = 7.5231638e-37f;  // 2⁻¹²⁰: below it the reciprocal would overflow

GPU_FUNCTION inline void round_four(const float* values, i32 four, bool inside, HalfBlock* row) {
  const float peak = block_peak(values), inverse = peak > kLeastPeak ? 1 / peak : 0;
  if (!inside) return;
  HalfBlock& block = row[four / 8];
  u32* const to = &block.pairs[four % 8 / 2].word[four % 2 * 2];
  to[0] = pack_f16x2(values[0] * inverse, values[2] * inverse);
  to[1] = pack_f16x2(values[1] * inverse, values[3] * inverse);
  if (four % 8 == 0) block.scale = peak;
}

// Rounds four elements of x, number `four`, into `row`, with the other lanes that have some of the same block.
GPU_FUNCTION inline void round_four(const float* values, i32 four, bool inside, RoundedBlock* row) {
  const float peak = block_peak(values), inverse = peak > kLeastPeak ? 127 / peak : 0;
  u32 word = 0;
  i32 sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const i32 code = round_to_int(values[i] * inverse);
    word |= (static_cast<u32>(code) & 0xff) << 8 * i;
    sum += code;
  }
  for (u32 step = 1; step < 4; step *= 2) sum += shuffle_xor(sum, step);
  const i32 other = shuffle_xor(sum, 4u);
  if (!inside) return;
  RoundedBlock& block = row[four / 8];
  const i32 part = four % 8;
  (part < 4 ? block.low : block.high).word[part % 4] = word;
  if (part != 0) return;
  block.scale = peak / 127;
  block.sums[0] = sum;
  block.sums[1] = other;
}

// A token before it is rounded: x·norm, with 1 / rms(x), or x alone.
struct RoundedRow {
  const float* x;
  const float* norm;  // [columns] or null
  i32 columns;
  float epsilon;
};

// Rounds it into `row`, and returns 1 / rms(x), or 1 without a norm.
template <class Block>
GPU_FUNCTION inline float round_row(const RoundedRow& a, Block* row) {
  constexpr int kAhead = 2;  // loads that are under way together
  float squares = 0;
  const i32 fours = a.columns / 4, wave = static_cast<i32>(kWave), threads = static_cast<i32>(block_size());
  const i32 end = (fours + wave - 1) / wave * wave;  // all lanes of a wave take part in its shuffles
  for (i32 first = static_cast<i32>(thread_index()); first < end; first += kAhead * threads) {
    Vec16 x[kAhead], norm[kAhead] = {};
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const i32 four = min_of(first + j * threads, fours - 1);
      x[j] = load_vec16(a.x + four * 4);
      if (a.norm != nullptr) norm[j] = load_vec16(a.norm + four * 4);
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const i32 four = first + j * threads;
      if (four >= end) break;
      float values[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[i] = four < fours ? bits_to_float(x[j].word[i]) : 0;
        if (a.norm == nullptr) continue;
        squares = fma(values[i], values[i], squares);
        values[i] *= bits_to_float(norm[j].word[i]);
      }
      round_four(values, four, four < fours, row);
    }
  }
  if (a.norm != nullptr) return 1 / sqrt(block_sum(squares) / static_cast<float>(a.columns) + a.epsilon);
  barrier();
  return 1;
}

// sums[i] += the products of a block of row i with `x`, whose scale is given.
template <Packing p, int count>
GPU_FUNCTION inline void add_products(const RawBlock<p>* raw, const RoundedBlock& x, float x_scale, float* sums) {
  constexpr int kGroups = kBlock / p.group, kWords = 8 / kGroups;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const BlockOfRow<p> weights = unpacked<p>(raw[i]);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const i32 x_sum = kGroups == 2 ? x.sums[g] : x.sums[0] + x.sums[1];
      const float dot = dot_codes<p, kWords>(weights, g * kWords, x_sum,
                                             [&](int w) { return w < 4 ? x.low.word[w] : x.high.word[w - 4]; });
      if constexpr (p.minimum) sums[i] = fma(weights.minimums[g] * x_scale, static_cast<float>(x_sum), sums[i]);
      sums[i] = fma(weights.scales[g] * x_scale, dot, sums[i]);
    }
  }
}

// Sums for E4M3 weights. Products are summed in f16, four to a lane of a pair: they are 2⁻⁸ times a weight, at most
// 1.9, and their sums lose less than activations of 8 bits do.
template <Packing p, int count>
GPU_FUNCTION inline void add_products(const RawBlock<p>* raw, const HalfBlock& x, float x_scale, float* sums) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    float sum = 0;
#pragma unroll
    for (int two = 0; two < 4; ++two) {
      u32 pair = 0;
#pragma unroll
      for (int w = 0; w < 2; ++w) {
        u32 weights[2];
        dealt_f16_of_e4m3(raw[i].planes.low[2 * two + w], weights);
        pair = fma_f16x2(weights[0], x.pairs[two].word[2 * w], pair);
        pair = fma_f16x2(weights[1], x.pairs[two].word[2 * w + 1], pair);
      }
      sum += to_float(Half{static_cast<u16>(pair)}) + to_float(Half{static_cast<u16>(pair >> 16)});
    }
    sums[i] = fma(scale_of<p>(raw[i].scales, 0) * (x_scale * kE4m3Unit), sum, sums[i]);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
