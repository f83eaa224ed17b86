// The size of a cluster whose blocks are the splits of one result.
#pragma once

#include <algorithm>

#include "backends/gpu/api.h"

namespace gabbro::gpu {

// The largest number of blocks, at least three quarters of `most`, such that `count` clusters of them run at the same
// time; 1: there is none. A cluster begins when all its blocks find room, so an eighth of the clusters is to spare.
inline uint32_t cluster_size(const api::Function* function, int64_t count, int64_t most) {
  constexpr int64_t kMaxBlocks = 8;  // that every device with clusters has
  for (int64_t blocks = std::min(kMaxBlocks, most); blocks > 1 && 4 * blocks >= 3 * most; --blocks) {
    const auto size = static_cast<uint32_t>(blocks);
    if (8 * int64_t{api::resident_clusters(function, size)} >= 9 * count) return size;
  }
  return 1;
}

}  // namespace gabbro::gpu
