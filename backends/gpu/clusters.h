// The size of a cluster whose blocks are the splits of one result.
#pragma once

#include <algorithm>

#include "backends/gpu/api.h"

namespace gabbro::gpu {

// The largest number of blocks, at least three quarters of `most`, such that `count` clusters of them run at the same
// time; 1: there is none. A cluster begins when all its blocks find room, so a twentieth of the clusters is to spare:
// 37 of the 39 clusters of six that an H200 runs are as fast as their blocks, 32 of 32 clusters of seven are not.
inline uint32_t cluster_size(const api::Function* function, int64_t count, int64_t most) {
  constexpr int64_t kMaxBlocks = 8;  // that every device with clusters has
  for (int64_t blocks = std::min(kMaxBlocks, most); blocks > 1 && 4 * blocks >= 3 * most; --blocks) {
    const auto size = static_cast<uint32_t>(blocks);
    if (20 * int64_t{api::resident_clusters(function, size)} >= 21 * count) return size;
  }
  return 1;
}

}  // namespace gabbro::gpu
