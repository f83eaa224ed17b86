// Runs the blocks of a launch on the host. Undefined behavior of a GPU stops the launch: lanes of a wave in
// different wave operations, a barrier that some threads never reach, an access outside the device's allocations.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "backends/gpu/sim/block.h"

namespace gabbro::gpu::sim {

// The order of blocks and of the threads in them.
struct BlockOrder {
  u64 seed = 0;      // 0: by their index
  u32 resident = 0;  // blocks that take turns; 0: each runs to its end, on all cores
};

// Runs all blocks, or fewer once `cancel` (may be null) is true; empty, or what went wrong, in one line that names the
// kernel and the place.
std::string run_grid(const Registration& kernel, Dim grid, const void* args, const std::atomic<bool>* cancel,
                     const BlockOrder& order = {});

// Whether a kernel is of the source with this path, or with one that ends so.
bool has_kernels_of(std::string_view source);

}  // namespace gabbro::gpu::sim
