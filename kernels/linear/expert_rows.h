// The slots and rows of a wave of `expert_linear`, and the end of its products.
#pragma once

#include "kernels/gpu/gpu.h"
#include "kernels/index/index_position.h"
#include "kernels/linear/expert_linear.h"

namespace gabbro::gpu::GABBRO_GPU {

// The block's tile; expert -1: the slot has none.
GPU_FUNCTION inline ExpertTile expert_tile(const ExpertLinearArgs& a) {
  const i32 index = static_cast<i32>(block_index().y);
  if (a.tiles != nullptr) return a.tiles[index];
  return {static_cast<i32>(checked_position(a.check, a.ids[index])), index, 1};
}

// Slot `i` of the tile; those past the end repeat the last one, and are not stored.
GPU_FUNCTION inline i32 slot_of(const ExpertLinearArgs& a, const ExpertTile& tile, i32 i) {
  const i32 at = tile.first + min_of(i, tile.count - 1);
  return a.order != nullptr ? a.order[at] : at;
}

// The first of the wave's kWaveRows rows of the expert.
GPU_FUNCTION inline i32 wave_row(const ExpertLinearArgs&) {
  return static_cast<i32>(block_index().x * (block_size() / kWave) + wave_index()) * kWaveRows;
}

// `sums` [kWaveRows][W] are this lane's parts of the products.
template <int W>
GPU_FUNCTION inline void store_expert_rows(const ExpertLinearArgs& a, const ExpertTile& tile, i32 row,
                                           const float* sums) {
#pragma unroll
  for (int i = 0; i < kWaveRows * W; ++i) {
    const float value = wave_sum(sums[i]);
    if (lane() != 0 || row + i / W >= a.rows || i % W >= tile.count) continue;
    a.y[static_cast<i64>(slot_of(a, tile, i % W)) * a.rows + row + i / W] = value;
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU
