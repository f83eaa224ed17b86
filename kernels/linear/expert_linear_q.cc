// Quantized weights of experts: a wave reads its rows once for a tile of slots, each lane whole blocks of 32 codes, and
// multiplies them with activations of 8 bits, as linear_small_batch_q.cc does. A slot's result does not depend on the
// tile that it is in.
#include "kernels/linear/codes.h"
#include "kernels/linear/expert_rows.h"

namespace gabbro::gpu::GABBRO_GPU {

template <Packing p, int W>
GPU_FUNCTION inline void expert_quantized(const ExpertLinearArgs& a) {
  const ExpertTile tile = expert_tile(a);
  const i32 row = wave_row(a);
  if (tile.count == 0 || row >= a.rows) return;
  float sums[kWaveRows * W] = {};
  if (tile.expert < 0) return store_expert_rows<W>(a, tile, row, sums);
  const i32 blocks = a.columns / kBlock;
  constexpr int kGroups = kBlock / p.group, kWords = 8 / kGroups;
  i64 first[kWaveRows];
#pragma unroll
  for (int r = 0; r < kWaveRows; ++r)
    first[r] = (static_cast<i64>(tile.expert) * a.rows + min_of(row + r, a.rows - 1)) * blocks;
  i64 x_row[W];
#pragma unroll
  for (int t = 0; t < W; ++t) x_row[t] = static_cast<i64>(slot_of(a, tile, t) / a.slots_per_row) * a.columns;
  // Two steps of eight slots would need more than 256 registers.
  [[maybe_unused]] constexpr int kSteps = kFewRegisters && W == 8 ? 1 : 2;
#pragma unroll kSteps
  for (i32 b = static_cast<i32>(lane()); b < blocks; b += static_cast<i32>(kWave)) {
    BlockOfRow<p> weights[kWaveRows];
#pragma unroll
    for (int r = 0; r < kWaveRows; ++r) weights[r] = unpacked<p>(load_raw<p>(a.matrix, first[r] + b));
#pragma unroll
    for (int t = 0; t < W; ++t) {
      const i64 at = x_row[t] + b * kBlock;
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
  store_expert_rows<W>(a, tile, row, sums);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_EXPERT(name)                                                                                    \
  GPU_KERNEL(expert_##name##_1, 256, gabbro::gpu::ExpertLinearArgs, expert_quantized<GABBRO_PACKING(name), 1>) \
  GPU_KERNEL(expert_##name##_8, 256, gabbro::gpu::ExpertLinearArgs,                                            \
             expert_quantized<GABBRO_PACKING(name), gabbro::gpu::kExpertTile>)

GABBRO_FOR_EACH_FORMAT(GABBRO_EXPERT)
