// f32, f16 and bf16 weights of experts: a wave reads its rows once for a tile of slots; products in f32.
#include "kernels/linear/expert_rows.h"
#include "kernels/linear/plain.h"

namespace gabbro::gpu::GABBRO_GPU {

// `whole`: rows and K are multiples of 16 bytes; otherwise element by element.
template <class T, int W, bool whole>
GPU_FUNCTION inline void expert_plain(const ExpertLinearArgs& a) {
  const ExpertTile tile = expert_tile(a);
  const i32 row = wave_row(a);
  if (tile.count == 0 || row >= a.rows) return;
  float sums[kWaveRows * W] = {};
  if (tile.expert < 0) return store_expert_rows<W>(a, tile, row, sums);
  const u8* weights[kWaveRows];
#pragma unroll
  for (int r = 0; r < kWaveRows; ++r) {
    const i64 own = static_cast<i64>(tile.expert) * a.rows + min_of(row + r, a.rows - 1);
    weights[r] = a.matrix.low + own * a.matrix.row_step;
  }
  const float* x[W];
#pragma unroll
  for (int t = 0; t < W; ++t) x[t] = a.x + static_cast<i64>(slot_of(a, tile, t) / a.slots_per_row) * a.columns;
  if constexpr (whole) {
    constexpr int kCount = PlainVector<T>::kCount;
#pragma unroll 2
    for (i32 k = static_cast<i32>(lane()) * kCount; k < a.columns; k += static_cast<i32>(kWave) * kCount) {
      PlainVector<T> w[kWaveRows];
#pragma unroll
      for (int r = 0; r < kWaveRows; ++r) w[r] = load_plain<T>(weights[r] + k * static_cast<i64>(sizeof(T)));
#pragma unroll
      for (int t = 0; t < W; ++t) {
#pragma unroll
        for (int vec = 0; vec < kCount; vec += 4) {
          const PlainVector<float> values = load_plain<float>(reinterpret_cast<const u8*>(x[t] + k + vec));
#pragma unroll
          for (int r = 0; r < kWaveRows; ++r) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[r * W + t] = fma(w[r].value[vec + i], values.value[i], sums[r * W + t]);
          }
        }
      }
    }
  } else {
    for (i32 k = static_cast<i32>(lane()); k < a.columns; k += static_cast<i32>(kWave)) {
#pragma unroll
      for (int r = 0; r < kWaveRows; ++r) {
        const float w = to_float(reinterpret_cast<const T*>(weights[r])[k]);
#pragma unroll
        for (int t = 0; t < W; ++t) sums[r * W + t] = fma(w, x[t][k], sums[r * W + t]);
      }
    }
  }
  store_expert_rows<W>(a, tile, row, sums);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_EXPERT_WIDTH(name, T, W)                                                         \
  GPU_KERNEL(expert_##name##_##W, 256, gabbro::gpu::ExpertLinearArgs, expert_plain<T, W, true>) \
  GPU_KERNEL(expert_##name##_##W##_any, 256, gabbro::gpu::ExpertLinearArgs, expert_plain<T, W, false>)
#define GABBRO_EXPERT(name, T)    \
  GABBRO_EXPERT_WIDTH(name, T, 1) \
  GABBRO_EXPERT_WIDTH(name, T, 8)

GABBRO_EXPERT(f32, float)
GABBRO_EXPERT(f16, gabbro::gpu::Half)
GABBRO_EXPERT(bf16, gabbro::gpu::BFloat)
