// Arguments of the kernels of `expert_linear`.
#pragma once

#include "kernels/index/index_check.h"
#include "kernels/linear/linear.h"

namespace gabbro::gpu {

// More experts are not grouped: each slot reads its weights.
inline constexpr int kMaxGroupedExperts = 1024;
// Slots of a tile, for which a wave reads its rows once.
inline constexpr int kExpertTile = 8;

// Slots `first` to first + count - 1 of `order`, all of one expert.
struct ExpertTile {
  i32 expert;
  i32 first;
  i32 count;  // 0: there is nothing to do
};

// Groups the slots, pairs of a token and one of its experts, by expert: one block of kLinearThreads threads. Slots
// without an expert get a row of zeros.
struct ExpertRouteArgs {
  const i32* ids;     // [slots]
  i32* order;         // [slots], sorted by expert
  ExpertTile* tiles;  // [most_tiles]
  float* y;           // [slots][rows]
  i32 slots;
  i32 experts;  // up to kMaxGroupedExperts
  i32 most_tiles;
  i32 rows;
  IndexCheck check;
};

// y = x·Wᵀ of each slot: a wave kWaveRows rows of an expert, grid.y the tiles, or the slots where there are no tiles.
struct ExpertLinearArgs {
  LinearMatrix matrix;  // [experts · rows, columns]
  i32 rows;             // of an expert
  i32 columns;
  i32 slots_per_row;        // of x: U, or 1 where each slot has a row
  const i32* ids;           // [slots]
  const i32* order;         // see ExpertRouteArgs; or null
  const ExpertTile* tiles;  // or null
  const float* x;           // plain weights
  const i8* codes;          // quantized weights: see QuantizeRowsArgs
  const float* scales;
  const i32* sums;
  float* y;  // [slots][rows]
  IndexCheck check;
};

}  // namespace gabbro::gpu
