// Arguments of `sort` and `topk` over the last axis of contiguous x [rows, columns] of f32, f16, bf16 or i32. An
// element is a key of 64 bits: the order of its value above its place, so that no two are equal. All ones stands for
// none.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

inline constexpr i32 kSortTile = 2048;     // keys that a block sorts in its memory: 16 KiB
inline constexpr u32 kSortThreads = 256;   // of a block
inline constexpr i32 kMergedByThread = 8;  // keys; kSortTile is a multiple of it

// A block sorts runs of `run` keys, a power of two up to kSortTile, in a tile.
//   sort_T       a run is a row, in whole tiles of rows: to values and indices
//   sort_tiles_T a run is a tile of a row: to keys [rows, columns]
struct SortArgs {
  const void* x;
  void* values;  // [rows, columns]
  i32* indices;  // [rows, columns]
  u64* keys;     // [rows, columns]
  i64 rows;
  i64 columns;
  i32 run;
  u32 flip;  // all ones: the largest first
};

// Sorted runs of `run` keys of each row of `from` become runs of twice the length in `to`; a thread makes
// kMergedByThread keys.
struct MergeArgs {
  const u64* from;  // [rows, columns]
  u64* to;
  i64 rows;
  i64 columns;
  i64 run;
};

// A block finds the first `run` of `tile` keys of a row (powers of two, run <= tile / 2 <= kSortTile / 2), and writes
// them in order.
//   topk_T    reads x [rows, columns]
//   topk_keys reads keys [rows, columns]
struct TopkArgs {
  const void* x;
  u64* keys;  // [rows, tiles, run]
  i64 columns;
  i64 tiles;  // of a row; the grid has a block for each of all rows
  i32 tile;
  i32 run;
  u32 flip;  // all ones: the largest first; topk_T alone
};

// The elements that the first `count` of each row of `pitch` keys stand for; a thread an element.
struct SortedArgs {
  const void* x;    // [rows, columns]
  const u64* keys;  // [rows, pitch]
  void* values;     // [rows, count]
  i32* indices;     // [rows, count]
  i64 columns;
  i64 pitch;
  i64 count;
  i64 total;  // rows · count
};

}  // namespace gabbro::gpu
