// A block of a launch on the host, as its kernel sees it: each thread has its stack and runs until it waits for the
// others, at a barrier or in a wave operation. grid.h runs the blocks.
#pragma once

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

// Whether the shared memory of a block is filled with a pattern before its first use.
extern bool poisons_shared;
// Fills `bytes` of shared memory at the block's first call for this address.
void poison_shared(void* memory, size_t bytes);

// A kernel of the simulator's tables, registered by GPU_KERNEL.
struct Registration {
  Registration(const char* kernel, u32 kernel_wave, u32 block_threads, size_t arguments,
               void (*entry)(const void* args), const char* source = __builtin_FILE());

  const char* name;
  u32 wave;
  u32 threads;
  size_t arg_bytes;  // of the struct behind `args`
  void (*function)(const void* args);
  const char* file;  // the source that instantiates the kernel
};
const Registration* find_kernel(const std::string& name, u32 wave);

}  // namespace gabbro::gpu::sim
