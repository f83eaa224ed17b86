// Weights of any format times one token, bound by memory: a wave two rows. Nothing is launched before to prepare x:
// with quantised weights each block rounds the whole of it for itself, and with an RMSNorm before (y = x·weight /
// rms(x), Zhang & Sennrich 2019) the products are those of x·weight, and 1 / rms(x) comes at the end.
#include "kernels/codes.h"
#include "kernels/linear_finish.h"
#include "kernels/plain.h"

namespace gabbro::gpu::GABBRO_GPU {

static_assert(kWaveRows == 2);

// The two rows of a wave: neighbours, or with kSiluMul the same row of both matrices.
struct RowPair {
  int matrix[2];
  i32 row[2];  // of which the second may not be there
  bool any;
};

GPU_FUNCTION inline RowPair row_pair(const LinearArgs& a) {
  i32 wave = static_cast<i32>(block_index().x * (block_size() / kWave) + wave_index());
  const bool any = wave < a.waves;
  if (!any) wave = 0;
  if (a.epilogue == Epilogue::kSiluMul) return {{0, 1}, {wave, wave}, any};
  int matrix = 0;
  while (wave >= waves_of(a.matrices[matrix].rows)) wave -= waves_of(a.matrices[matrix++].rows);
  return {{matrix, matrix}, {2 * wave, 2 * wave + 1}, any};
}

// The row that is read: where there is no second one, the first.
GPU_FUNCTION inline i64 row_to_read(const LinearArgs& a, const RowPair& pair, int i) {
  return min_of(pair.row[i], a.matrices[pair.matrix[i]].rows - 1);
}

// `sums`: this lane's shares.
GPU_FUNCTION inline void finish_pair(const LinearArgs& a, const RowPair& pair, float factor, const float* sums) {
  float values[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) values[i] = wave_sum(sums[i]) * factor;
  if (lane() != 0 || !pair.any) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const LinearMatrix& m = a.matrices[pair.matrix[i]];
    if (m.bias != nullptr && pair.row[i] < m.rows) values[i] += m.bias[pair.row[i]];
  }
  const LinearMatrix& m = a.matrices[pair.matrix[0]];
  if (a.epilogue == Epilogue::kSiluMul) {
    m.y[pair.row[0]] = silu(values[0]) * values[1];
    return;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (pair.row[i] >= m.rows) continue;
    if (a.epilogue == Epilogue::kAdd) values[i] += a.residual[pair.row[i]];
    m.y[pair.row[i]] = values[i];
  }
}

// x in the block's memory: codes in ±127 with a scale for each 32 (the scheme of llama.cpp's q8_1). The halves of a
// block of codes are apart, so that the lanes of a wave read 16 consecutive bytes each.
struct RoundedRow {
  Quad* halves[2];
  float* scales;
  u32* sums;  // of the codes of each half, 16 bits each
};

// Rounds x·norm into `row`, and returns 1 / rms(x), or 1 without a norm. A thread four elements at a time.
GPU_FUNCTION inline float round_row(const LinearArgs& a, const RoundedRow& row) {
  float squares = 0;
  const i32 fours = a.columns / 4, wave = static_cast<i32>(kWave);
  const i32 end = (fours + wave - 1) / wave * wave;  // all lanes of a wave take part in its shuffles
  for (i32 four = static_cast<i32>(thread_index()); four < end; four += static_cast<i32>(block_size())) {
    const bool inside = four < fours;
    const Quad bits = load_quad(a.x + (inside ? four : 0) * 4);
    float values[4], peak = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = inside ? bits_to_float(bits.word[i]) : 0;
    if (a.norm != nullptr) {
      const Quad weights = load_quad(a.norm + (inside ? four : 0) * 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        squares = fma(values[i], values[i], squares);
        values[i] *= bits_to_float(weights.word[i]);
      }
    }
#pragma unroll
    for (const float value : values) peak = max_of(peak, abs(value));
    for (u32 step = 1; step < 8; step *= 2) peak = max_of(peak, shuffle_xor(peak, step));
    const float inverse = peak > 7.5231638e-37f ? 127 / peak : 0;  // 2⁻¹²⁰: below it the reciprocal would overflow
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
    if (!inside) continue;
    const i32 block = four / 8, part = four % 8;
    row.halves[part / 4][block].word[part % 4] = word;
    if (part != 0) continue;
    row.scales[block] = peak / 127;
    row.sums[block] = (static_cast<u32>(sum) & 0xffff) | static_cast<u32>(other) << 16;
  }
  if (a.norm != nullptr) return 1 / sqrt(block_sum(squares) / static_cast<float>(a.columns) + a.epsilon);
  barrier();
  return 1;
}

// sums[i] += the products of a block of row i.
template <Packing p>
GPU_FUNCTION inline void add_products(const BlockOfRow<p>* weights, const RoundedRow& x, i32 block, float* sums) {
  constexpr int kGroups = kBlock / p.group, kWords = 8 / kGroups;
  const Quad low = x.halves[0][block], high = x.halves[1][block];
  const float x_scale = x.scales[block];
  const u32 x_sums = x.sums[block];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const i32 parts[2] = {static_cast<i16>(x_sums & 0xffff), static_cast<i16>(x_sums >> 16)};
    const i32 x_sum = kGroups == 2 ? parts[g] : parts[0] + parts[1];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      i32 sum = -p.zero * x_sum;
#pragma unroll
      for (int w = g * kWords; w < (g + 1) * kWords; ++w) {
        sum = dot4(weights[i].codes.word[w], static_cast<i32>(w < 4 ? low.word[w] : high.word[w - 4]), sum);
      }
      if constexpr (p.minimum) sums[i] = fma(weights[i].minimums[g] * x_scale, static_cast<float>(x_sum), sums[i]);
      sums[i] = fma(weights[i].scales[g] * x_scale, static_cast<float>(sum), sums[i]);
    }
  }
}

template <Packing p>
GPU_FUNCTION inline void linear_one_quantised(const LinearArgs& a) {
  GPU_SHARED(Quad, first_halves, kMaxOneColumns / kBlock);
  GPU_SHARED(Quad, second_halves, kMaxOneColumns / kBlock);
  GPU_SHARED(float, scales, kMaxOneColumns / kBlock);
  GPU_SHARED(u32, code_sums, kMaxOneColumns / kBlock);
  const RoundedRow row = {{first_halves, second_halves}, scales, code_sums};
  const RowPair pair = row_pair(a);
  const i32 blocks = a.columns / kBlock;
  i64 first[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) first[i] = row_to_read(a, pair, i) * blocks;
  // Weights are on their way while x is still computed by the launch ahead, and then while it is rounded here.
  BlockOfRow<p> coming[2];
  const auto load = [&](i32 block) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      coming[i] = load_block<p>(a.matrices[pair.matrix[i]], first[i] + min_of(block, blocks - 1));
    }
  };
  load(static_cast<i32>(lane()));
  wait_for_previous();
  const float factor = round_row(a, row);
  float sums[2] = {};
  for (i32 block = static_cast<i32>(lane()); block < blocks; block += static_cast<i32>(kWave)) {
    const BlockOfRow<p> weights[2] = {coming[0], coming[1]};
    load(block + static_cast<i32>(kWave));
    add_products<p>(weights, row, block, sums);
  }
  finish_pair(a, pair, factor, sums);
}

// Rows and K are multiples of 16 bytes.
template <class T>
GPU_FUNCTION inline void linear_one_plain(const LinearArgs& a) {
  constexpr int kCount = PlainVector<T>::kCount, kStep = static_cast<int>(kWave) * kCount;
  const RowPair pair = row_pair(a);
  const u8* rows[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const LinearMatrix& m = a.matrices[pair.matrix[i]];
    rows[i] = m.low + row_to_read(a, pair, i) * m.row_step;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const i64 bytes = static_cast<i64>(a.columns) * static_cast<i64>(sizeof(T));
    prefetch(rows[i] + min_of(static_cast<i64>(lane()) * 128, bytes - 1));
  }
  wait_for_previous();
  float sums[2] = {}, squares = 0;
#pragma unroll 4
  for (i32 k = static_cast<i32>(lane()) * kCount; k < a.columns; k += kStep) {
    PlainVector<T> weights[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) weights[i] = load_plain<T>(rows[i] + k * static_cast<i64>(sizeof(T)));
#pragma unroll
    for (int quad = 0; quad < kCount; quad += 4) {
      PlainVector<float> x = load_plain<float>(reinterpret_cast<const u8*>(a.x + k + quad));
      if (a.norm != nullptr) {
        const PlainVector<float> norm = load_plain<float>(reinterpret_cast<const u8*>(a.norm + k + quad));
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          squares = fma(x.value[j], x.value[j], squares);
          x.value[j] *= norm.value[j];
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i] = fma(weights[i].value[quad + j], x.value[j], sums[i]);
      }
    }
  }
  // Every wave has seen the whole of x.
  float factor = 1;
  if (a.norm != nullptr) factor = 1 / sqrt(wave_sum(squares) / static_cast<float>(a.columns) + a.epsilon);
  finish_pair(a, pair, factor, sums);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_PLAIN(name, T) GPU_EARLY_KERNEL(linear_##name##_1, 256, gabbro::gpu::LinearArgs, linear_one_plain<T>)
#define GABBRO_QUANTISED(name, packing) \
  GPU_EARLY_KERNEL(linear_##name##_1, 256, gabbro::gpu::LinearArgs, linear_one_quantised<gabbro::gpu::packing>)

GABBRO_PLAIN(f32, float)
GABBRO_PLAIN(f16, gabbro::gpu::Half)
GABBRO_PLAIN(bf16, gabbro::gpu::BFloat)
GABBRO_QUANTISED(q4_0, kQ4_0)
GABBRO_QUANTISED(q4_1, kQ4_1)
GABBRO_QUANTISED(q5_0, kQ5_0)
GABBRO_QUANTISED(q5_1, kQ5_1)
GABBRO_QUANTISED(q8_0, kQ8_0)
GABBRO_QUANTISED(q2_k, kQ2_K)
GABBRO_QUANTISED(q3_k, kQ3_K)
GABBRO_QUANTISED(q4_k, kQ4_K)
GABBRO_QUANTISED(q5_k, kQ5_K)
GABBRO_QUANTISED(q6_k, kQ6_K)
GABBRO_QUANTISED(iq4_nl, kIQ4_NL)
GABBRO_QUANTISED(iq4_xs, kIQ4_XS)
