// Runs the blocks of a launch on the host: each thread of a block has its stack and runs until it waits for the others,
// at a barrier or in a wave operation. What would be undefined on a GPU stops the launch: lanes of a wave in different
// wave operations, a barrier that some threads never reach, an access outside the device's allocations.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "kernels/gpu/types.h"

namespace gabbro::gpu::sim {

// The source line at which a thread waits.
struct Place {
  const char* file;
  int line;
};

struct BlockState {
  Dim index;
  Dim grid;
  u32 threads = 0;
};

// Facts that a kernel asks about its own thread.
u32 current_thread();
const BlockState& current_block();
void barrier(Place place);
// Waits until all lanes of the wave have given a value, and returns these by lane; they stay until the next but one.
const u64* exchange(u64 value, Place place);

// A kernel of the simulator's tables, registered by GPU_KERNEL.
struct Registration {
  Registration(const char* kernel, u32 kernel_wave, u32 block_threads, void (*entry)(const void* args));

  const char* name;
  u32 wave;
  u32 threads;
  void (*function)(const void* args);
};
const Registration* find_kernel(const std::string& name, u32 wave);

// Runs all blocks, or fewer once `cancel` (may be null) is true; empty, or what went wrong, in one line that names the
// kernel and the place.
std::string run_grid(const Registration& kernel, Dim grid, const void* args, const std::atomic<bool>* cancel);

}  // namespace gabbro::gpu::sim
