// The router of a mixture of experts: softmax over a short row, and its largest elements.
#include "kernels/rows/softmax_topk.h"

#include "kernels/rows/sort_keys.h"

namespace gabbro::gpu::GABBRO_GPU {

GPU_FUNCTION inline u64 least_of_wave(u64 key) {
  for (u32 step = 1; step < kWave; step *= 2) {
    const u64 other = static_cast<u64>(shuffle_xor(static_cast<u32>(key >> 32), step)) << 32 |
                      shuffle_xor(static_cast<u32>(key), step);
    key = min_of(key, other);
  }
  return key;
}

template <int held>
GPU_FUNCTION inline void softmax_topk(const SoftmaxTopkArgs& a) {
  const i32 row = static_cast<i32>(block_index().x * (block_size() / kWave) + wave_index());
  if (row >= a.rows) return;
  const float* x = a.x + static_cast<i64>(row) * a.columns;
  const auto column = [](int i) { return static_cast<i32>(lane()) + i * static_cast<i32>(kWave); };
  float values[held];
  constexpr float kLowest = -3.4028235e38f;  // finite, so that -inf minus it is not NaN
  float peak = kLowest;
#pragma unroll
  for (int i = 0; i < held; ++i) {
    values[i] = column(i) < a.columns ? x[column(i)] : kLowest;
    peak = max_of(peak, values[i]);
  }
  peak = wave_max(peak);
  float total = 0;
#pragma unroll
  for (int i = 0; i < held; ++i) {
    values[i] = column(i) < a.columns ? exp(values[i] - peak) : 0;
    total += values[i];
  }
  const float inverse = 1 / wave_sum(total);
  u64 keys[held];
#pragma unroll
  for (int i = 0; i < held; ++i) {
    values[i] *= inverse;
    keys[i] = column(i) < a.columns ? key_of(values[i], column(i), ~0u) : kNoKey;
  }
  float chosen = 0, own = 0;  // the sum of the chosen values, and the value whose number is the lane's
  i32 own_index = 0;
  for (i32 n = 0; n < a.count; ++n) {
    u64 least = kNoKey;
#pragma unroll
    for (int i = 0; i < held; ++i) least = min_of(least, keys[i]);
    least = least_of_wave(least);
    const i32 place = static_cast<i32>(place_of(least));
    float value = 0;
#pragma unroll
    for (int i = 0; i < held; ++i) {
      if (keys[i] != least) continue;
      value = values[i];
      keys[i] = kNoKey;
    }
    value = shuffle(value, static_cast<u32>(place) % kWave);
    chosen += value;
    if (n == static_cast<i32>(lane())) {
      own = value;
      own_index = place;
    }
  }
  if (static_cast<i32>(lane()) >= a.count) return;
  const i64 to = static_cast<i64>(row) * a.count + static_cast<i32>(lane());
  a.values[to] = a.normalized ? own / chosen : own;
  a.indices[to] = own_index;
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(softmax_topk_4, gabbro::gpu::kSoftmaxTopkThreads, gabbro::gpu::SoftmaxTopkArgs,
           softmax_topk<gabbro::gpu::kFewHeld>)
GPU_KERNEL(softmax_topk_16, gabbro::gpu::kSoftmaxTopkThreads, gabbro::gpu::SoftmaxTopkArgs,
           softmax_topk<gabbro::gpu::kManyHeld>)
