// Arguments of attention over a cache of latents (docs/design/fused_ops.md).
#pragma once

#include "kernels/attention/kv_cache.h"

namespace gabbro::gpu {

inline constexpr u32 kLatentThreads = 256;
inline constexpr int kLatentHeads = 8;   // of a block
inline constexpr int kLatentKeys = 16;   // of a tile
inline constexpr int kMaxLatent = 640;   // elements: queries and a tile fill 40 KB of a block's memory
inline constexpr int kLatentShare = 64;  // keys of a split, at least

// Grid (T, H in parts of kLatentHeads, splits). With several splits a second launch (AttentionMergeArgs) follows.
struct LatentAttentionArgs {
  HeadsView q;
  KvSide latents;  // [pages, 1, P, D]
  KvShape kv;
  PageTable table;
  const i32* sequence;
  const i32* positions;
  float* y;         // [T][H][V]
  float* partials;  // with splits > 1: [T][H][splits][V + 2]
  i32 splits;
  i32 values;  // V
  float scale;
};

}  // namespace gabbro::gpu
