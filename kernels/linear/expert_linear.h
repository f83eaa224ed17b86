// Arguments of the kernels of `expert_linear`.
#pragma once

#include "kernels/index/index_check.h"
#include "kernels/linear/linear.h"

namespace gabbro::gpu {

// More experts are not grouped: each slot reads its weights.
inline constexpr int kMaxGroupedExperts = 1024;
// Slots of a tile of the kernels without matrix cores, for which a wave reads its rows once.
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
  i32 tile;     // slots of a tile at most
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

// Rows of activations as f16, as ConvertRowsArgs has them, for tiles of `tile` slots: grid T, a block each. A row has
// whole steps of kBatchDepth, in the order of row_place().
struct ConvertExpertArgs {
  ConvertRowsArgs rows;
  i32 tile;
  bool blocks;
};

// The products of ExpertLinearArgs on matrix cores, or with kSiluMul silu(y0)·y1 of two matrices: grid (row_tiles
// / waves of a block, tiles of slots).
struct ExpertBatchArgs {
  LinearMatrix matrices[2];  // [experts · rows, columns]
  i32 rows;                  // of an expert
  i32 row_tiles;             // of an expert: batch_tiles()
  i32 columns;
  i32 depth;          // columns in whole steps
  i32 slots_per_row;  // of x
  Epilogue epilogue;
  const i32* order;
  const ExpertTile* tiles;
  const Half* f16;  // see ConvertExpertArgs
  const float* scales;
  float* y;  // [slots][rows]
};

// Few tokens, quantized weights: of each slot silu(x·W0ᵀ)·(x·W1ᵀ), grid (rows of an expert, slots), or of each token
// the sum of its slots' products times `weights`, grid (rows of an expert, tokens).
struct ExpertDecodeArgs {
  LinearMatrix matrices[2];  // [experts · rows, columns]; of sums the first alone
  i32 rows;                  // of an expert
  i32 columns;
  i32 used;               // slots of a token
  const i32* ids;         // [T][used]
  const float* weights;   // [T][used]
  const float* residual;  // [T][rows] or null
  const float* norm;      // [columns] of an RMSNorm of x before, not of sums; or null
  float epsilon;
  const float* x;  // [T][columns], or of sums [T][used][columns]
  float* y;        // [T][used][rows], or of sums [T][rows]
  IndexCheck check;
};
inline constexpr int kExpertSumThreads = 512;
inline constexpr int kMaxUsedExperts = 64;  // of a token, in sums

}  // namespace gabbro::gpu
