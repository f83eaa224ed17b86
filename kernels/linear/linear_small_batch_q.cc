// Quantized weights times few tokens, bound by memory: a wave a row, each lane whole blocks of 32 codes, integer dot
// products with activations of 8 bits.
#include "kernels/linear/codes.h"
#include "kernels/linear/linear_finish.h"

namespace gabbro::gpu::GABBRO_GPU {

// Converts x, after an optional RMSNorm, to codes in ±127 with a scale for each 32 (the scheme of llama.cpp's q8_1).
GPU_FUNCTION inline void quantize_rows(const QuantizeRowsArgs& a) {
  const i64 row = block_index().x;
  const float* x = a.x + row * a.columns;
  float factor = 1;
  if (a.norm != nullptr) {
    float squares = 0;
#pragma unroll 4
    for (i32 k = static_cast<i32>(thread_index()) * 4; k < a.columns; k += static_cast<i32>(block_size()) * 4) {
      const Vec16 vec = load_vec16(x + k);  // columns are whole blocks
#pragma unroll
      for (const u32 word : vec.word) squares = fma(bits_to_float(word), bits_to_float(word), squares);
    }
    factor = 1 / sqrt(block_sum(squares) / static_cast<float>(a.columns) + a.epsilon);
  }
  const i32 begin = static_cast<i32>(block_index().y) * a.slice;
  // All lanes of a wave take part in its sums, also those behind the end of the row.
  const i32 rounded = (a.columns + static_cast<i32>(kWave) - 1) / static_cast<i32>(kWave) * static_cast<i32>(kWave);
  const i32 end = min_of(begin + a.slice, rounded);
  for (i32 k = begin + static_cast<i32>(thread_index()); k < end; k += static_cast<i32>(block_size())) {
    const bool inside = k < a.columns;
    float value = inside ? x[k] * factor : 0;
    if (inside && a.norm != nullptr) value *= a.norm[k];
    float peak = abs(value);
    for (u32 step = 1; step < 32; step *= 2) peak = max_of(peak, shuffle_xor(peak, step));
    const float inverse = peak > 7.5231638e-37f ? 127 / peak : 0;  // 2⁻¹²⁰: below it the reciprocal would overflow
    const i32 code = round_to_int(value * inverse);
    i32 sum = code;
    for (u32 step = 1; step < 16; step *= 2) sum += shuffle_xor(sum, step);
    if (!inside) continue;
    a.codes[row * a.columns + k] = static_cast<i8>(code);
    if (k % 32 == 0) a.scales[(row * a.columns + k) / 32] = peak / 127;
    if (k % 16 == 0) a.sums[(row * a.columns + k) / 16] = sum;
  }
}

// The products of the wave's rows with W tokens, this lane's share: sums [kWaveRows][W].
template <Packing p, int W>
GPU_FUNCTION inline void dot_rows(const LinearMatrix& m, i32 row, const LinearArgs& a, i32 token, float* sums) {
  const i32 blocks = a.columns / kBlock;
  constexpr int kGroups = kBlock / p.group, kWords = 8 / kGroups;
  i64 first[kWaveRows];
#pragma unroll
  for (int r = 0; r < kWaveRows; ++r) first[r] = static_cast<i64>(min_of(row + r, m.rows - 1)) * blocks;
  // Two steps of eight tokens would need more than 256 registers (gfx906: 88 to 100 bytes of scratch memory).
  [[maybe_unused]] constexpr int kSteps = kFewRegisters && W == 8 ? 1 : 2;
#pragma unroll kSteps
  for (i32 b = static_cast<i32>(lane()); b < blocks; b += static_cast<i32>(kWave)) {
    BlockOfRow<p> weights[kWaveRows];
#pragma unroll
    for (int r = 0; r < kWaveRows; ++r) weights[r] = unpacked<p>(load_raw<p>(m, first[r] + b));
#pragma unroll
    for (int t = 0; t < W; ++t) {
      const i64 at = static_cast<i64>(min_of(token + t, a.tokens - 1)) * a.columns + b * kBlock;
      const Vec16 low = load_vec16(a.codes + at), high = load_vec16(a.codes + at + 16);
      const float x_scale = a.scales[at / 32];
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        i32 x_sum = 0;
        if constexpr (p.zero != 0 || p.minimum) {
          const i32* parts = a.sums + at / 16 + g;
          x_sum = kGroups == 2 ? parts[0] : parts[0] + parts[1];
        }
#pragma unroll
        for (int r = 0; r < kWaveRows; ++r) {
          const float dot = dot_codes<p, kWords>(weights[r], g * kWords, x_sum,
                                                 [&](int w) { return w < 4 ? low.word[w] : high.word[w - 4]; });
          float& total = sums[r * W + t];
          if constexpr (p.minimum) total = fma(weights[r].minimums[g] * x_scale, static_cast<float>(x_sum), total);
          total = fma(weights[r].scales[g] * x_scale, dot, total);
        }
      }
    }
  }
}

// Asks for what the wave reads first, while the launch ahead still computes its activations.
template <Packing p>
GPU_FUNCTION inline void prefetch_rows(const LinearMatrix& m, i32 row, i32 columns) {
  const i64 bytes = static_cast<i64>(columns) * p.low_bits() / 8, begin = row * bytes;
  for (i64 at = static_cast<i64>(lane()) * 128; at < min_of<i64>(kWaveRows * bytes, kWave * 128); at += kWave * 128) {
    prefetch(m.low + min_of(begin + at, m.rows * bytes - 1));
  }
}

template <Packing p, int W>
GPU_FUNCTION inline void linear_quantized(const LinearArgs& a) {
  const WaveRows at = wave_rows(a);
  if (at.matrix < 0) return wait_for_previous();
  const i32 token = static_cast<i32>(block_index().y) * W;
  const bool paired = a.epilogue == Epilogue::kSiluMul;
  prefetch_rows<p>(a.matrices[at.matrix], at.row, a.columns);
  if (paired) prefetch_rows<p>(a.matrices[1], at.row, a.columns);
  wait_for_previous();
  float sums[kWaveRows * W] = {}, second[kWaveRows * W] = {};
  dot_rows<p, W>(a.matrices[at.matrix], at.row, a, token, sums);
  if (paired) dot_rows<p, W>(a.matrices[1], at.row, a, token, second);
  finish_rows<W>(a, at, token, sums, second);
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(quantize_rows, 256, gabbro::gpu::QuantizeRowsArgs, quantize_rows)

#define GABBRO_LINEAR(name)                                                                                    \
  GPU_EARLY_KERNEL(linear_##name##_2, 256, gabbro::gpu::LinearArgs, linear_quantized<GABBRO_PACKING(name), 2>) \
  GPU_EARLY_KERNEL(linear_##name##_4, 256, gabbro::gpu::LinearArgs, linear_quantized<GABBRO_PACKING(name), 4>) \
  GPU_EARLY_KERNEL(linear_##name##_8, 256, gabbro::gpu::LinearArgs, linear_quantized<GABBRO_PACKING(name), 8>)

GABBRO_FOR_EACH_FORMAT(GABBRO_LINEAR)
