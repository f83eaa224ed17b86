// Kernels of the runtime's own tests.
#include "tests/emulated_hip/test_kernels.h"

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

GPU_FUNCTION inline void add(const AddArgs& a) { a.data[global_index()] += a.summand; }

GPU_FUNCTION inline void note_order(const OrderArgs& a) {
  if (thread_index() == 0) a.blocks[atomic_increment(a.counter)] = block_index().x;
  for (int i = 0; i < 64; ++i) barrier();
}

GPU_FUNCTION inline void read_garbage(const GarbageArgs& a) {
  GPU_SHARED(u32, words, 64);
  a.out[thread_index()] = words[thread_index()];
}

GPU_FUNCTION inline void take_words(const LargeArgs&) {}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(test_add, 64, gabbro::gpu::AddArgs, add)
GPU_KERNEL(test_order, 64, gabbro::gpu::OrderArgs, note_order)
GPU_KERNEL(test_garbage, 64, gabbro::gpu::GarbageArgs, read_garbage)
GPU_KERNEL(test_large, 64, gabbro::gpu::LargeArgs, take_words)
