// Arguments of cumsum over the last axis of contiguous x [rows, columns] of f32 or i32. A block a tile of a row.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

inline constexpr u32 kScanThreads = 256;
inline constexpr i32 kScannedByThread = 8;  // elements that follow each other
inline constexpr i32 kScanTile = static_cast<i32>(kScanThreads) * kScannedByThread;

struct ScanArgs {
  const void* x;
  void* y;
  void* sums;  // [rows, tiles]: of the tiles, and then of those before; null where a row is one tile
  i64 columns;
  i32 tiles;  // of a row
};

}  // namespace gabbro::gpu
