// Kernels of the simulator's own tests: one that is right, and one for each mistake that the simulator sees.
#include "backends/gpu/sim/test_kernels.h"

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

// Each block's elements in reverse order; and behind them the sum of each wave, and of the block.
GPU_FUNCTION inline void test_reverse(const TestArgs& a) {
  GPU_SHARED(float, values, 128);
  const u32 t = thread_index(), first = block_index().x * block_size();
  values[t] = a.data[first + t];
  barrier();
  a.out[first + t] = values[block_size() - 1 - t];
  const u32 behind = grid_size().x * block_size() + block_index().x * (block_size() / kWave + 1);
  const float sum = wave_sum(values[t]), total = block_sum(values[t]);
  if (lane() == 0) a.out[behind + wave_index()] = sum;
  if (t == 0) a.out[behind + block_size() / kWave] = total;
}

GPU_FUNCTION inline void test_read(const TestArgs& a) {
  if (thread_index() == 5) a.out[0] = a.data[a.index];
}

GPU_FUNCTION inline void test_write(const TestArgs& a) {
  if (thread_index() == 5) a.data[a.index] = 1;
}

GPU_FUNCTION inline void test_barrier(const TestArgs&) {
  if (thread_index() != 3) barrier();
}

GPU_FUNCTION inline void test_two_shuffles(const TestArgs& a) {
  float value = 1;
  if (lane() == 7) {
    value = shuffle_xor(value, 1);
  } else {
    value = shuffle_xor(value, 2);
  }
  a.out[thread_index()] = value;
}

GPU_FUNCTION inline void test_missing_lane(const TestArgs& a) {
  if (lane() == 7) return;
  a.out[thread_index()] = shuffle_xor(1.0f, 1);
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(test_reverse, 128, gabbro::gpu::TestArgs, test_reverse)
GPU_KERNEL(test_read, 128, gabbro::gpu::TestArgs, test_read)
GPU_KERNEL(test_write, 128, gabbro::gpu::TestArgs, test_write)
GPU_KERNEL(test_barrier, 128, gabbro::gpu::TestArgs, test_barrier)
GPU_KERNEL(test_two_shuffles, 128, gabbro::gpu::TestArgs, test_two_shuffles)
GPU_KERNEL(test_missing_lane, 128, gabbro::gpu::TestArgs, test_missing_lane)
