// Arguments of cumsum over the last axis of contiguous x [rows, columns] of f32, i32 or i64; the sums of i32 are i64. A
// block a tile of a row, or a row of whole 16-byte vectors.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

inline constexpr u32 kScanThreads = 256;
inline constexpr i32 kScannedByThread = 8;  // elements that follow each other
inline constexpr i32 kScanTile = static_cast<i32>(kScanThreads) * kScannedByThread;

// Rows that a block keeps in its registers, by its threads.
inline constexpr i32 kScanVectors = 8;  // of a thread, at most; four registers each, eight of i32
inline constexpr u32 kScanSmallThreads = 64;
constexpr i64 longest_scanned_row(u32 threads) { return static_cast<i64>(threads) * kScanVectors * 4; }

struct ScanArgs {
  const void* x;
  void* y;
  void* sums;  // [rows, tiles]: of the tiles, and then of those before; null where a row is one tile
  i64 columns;
  i32 tiles;  // of a row
};

}  // namespace gabbro::gpu
