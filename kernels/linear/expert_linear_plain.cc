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
  dot_plain<T, W, whole, 2>(
      [&a, tile, row](int r) {
        const i64 own = static_cast<i64>(tile.expert) * a.rows + min_of(row + r, a.rows - 1);
        return a.matrix.low + own * a.matrix.row_step;
      },
      [&a, tile](int t) { return a.x + static_cast<i64>(slot_of(a, tile, t) / a.slots_per_row) * a.columns; },
      a.columns, sums);
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
