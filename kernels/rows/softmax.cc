// Softmax over the last axis, y = e^(x - max x) / sum e^(x - max x), and its logarithm; accumulated in f32. A row of
// -inf, or with a NaN, gives NaN.
#include "kernels/rows/softmax.h"

#include "kernels/rows/row_vectors.h"

namespace gabbro::gpu::GABBRO_GPU {

inline constexpr float kLowest = -3.4028235e38f;  // finite, so that -inf minus it is not NaN

// Softmax of an element, given its row's maximum and sum.
class Outcome {
 public:
  GPU_FUNCTION Outcome(const SoftmaxArgs& a, float highest, float sum)
      : logarithm_(a.logarithm != 0), highest_(highest), inverse_(1 / sum), log_sum_(logarithm_ ? log(sum) : 0) {}
  GPU_FUNCTION float operator()(float x) const {
    return logarithm_ ? x - highest_ - log_sum_ : exp(x - highest_) * inverse_;
  }

 private:
  bool logarithm_;
  float highest_, inverse_, log_sum_;
};

// A block a row, an element at a time.
template <class T>
GPU_FUNCTION inline void softmax(const SoftmaxArgs& a) {
  if (flat_block() >= a.rows) return;
  const i64 row = flat_block() * a.columns;
  const T* x = static_cast<const T*>(a.x) + row;
  T* y = static_cast<T*>(a.y) + row;
  const i32 first = static_cast<i32>(thread_index()), step = static_cast<i32>(block_size());
  float highest = kLowest;
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) highest = max_of(highest, to_float(x[k]));
  highest = block_max(highest);
  float sum = 0;
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) sum += exp(to_float(x[k]) - highest);
  const Outcome outcome(a, highest, block_sum(sum));
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) y[k] = from_float<T>(outcome(to_float(x[k])));
}

// For rows that are whole 16-byte vectors and fit in registers.
template <class T, RowTeam team, int kVectors>
GPU_FUNCTION inline void softmax_vectors(const SoftmaxArgs& a) {
  const i64 row = team_row<team>();
  if (row >= a.rows) return;
  RowShare<T, team, kVectors> share(static_cast<const T*>(a.x) + row * a.columns, a.columns);
  float highest = kLowest, sum = 0;
  share.for_each([&](float value) { highest = max_of(highest, value); });
  highest = team_max<team>(highest);
  T* y = static_cast<T*>(a.y) + row * a.columns;
  if (a.logarithm) {
    share.for_each([&](float value) { sum += exp(value - highest); });
    const float log_sum = log(team_sum<team>(sum));
    return share.store(y, [&](i32) { return [&](float value, int) { return value - highest - log_sum; }; });
  }
  share.for_each([&](float& value) {
    value = exp(value - highest);
    sum += value;
  });
  const float inverse = 1 / team_sum<team>(sum);
  share.store(y, [&](i32) { return [&](float value, int) { return value * inverse; }; });
}

// For rows that are whole 16-byte vectors: maximum and sum in one pass (Milakov & Gimelshein 2018), then the result.
template <class T>
GPU_FUNCTION inline void softmax_long(const SoftmaxArgs& a) {
  constexpr i32 kElements = RowVector<T>::kElements;
  if (flat_block() >= a.rows) return;
  const i64 row = flat_block() * a.columns;
  const auto* x = reinterpret_cast<const RowVector<T>*>(static_cast<const T*>(a.x) + row);
  auto* y = reinterpret_cast<RowVector<T>*>(static_cast<T*>(a.y) + row);
  const i32 vectors = a.columns / kElements, first = static_cast<i32>(thread_index()),
            step = static_cast<i32>(block_size());
  float highest = kLowest, sum = 0;
#pragma unroll 4
  for (i32 p = first; p < vectors; p += step) {
    const RowVector<T> vector = x[p];
    float higher = highest;
#pragma unroll
    for (int e = 0; e < kElements; ++e) higher = max_of(higher, to_float(vector.value[e]));
    sum *= exp(highest - higher);
    highest = higher;
#pragma unroll
    for (int e = 0; e < kElements; ++e) sum += exp(to_float(vector.value[e]) - highest);
  }
  const float all = block_max(highest);
  const Outcome outcome(a, all, block_sum(sum * exp(highest - all)));
#pragma unroll 4
  for (i32 p = first; p < vectors; p += step) {
    RowVector<T> vector = x[p];
#pragma unroll
    for (int e = 0; e < kElements; ++e) vector.value[e] = from_float<T>(outcome(to_float(vector.value[e])));
    y[p] = vector;
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

// RowKernel::vectors of backends/gpu/ops/row_kernels.h has the longest row of each.
#define GABBRO_SOFTMAX(name, T)                                                 \
  GPU_KERNEL(softmax_##name, 256, gabbro::gpu::SoftmaxArgs, softmax<T>)         \
  GPU_KERNEL(softmax_##name##_wave, 256, gabbro::gpu::SoftmaxArgs,              \
             softmax_vectors<T, gabbro::gpu::GABBRO_GPU::RowTeam::kOneWave, 4>) \
  GPU_KERNEL(softmax_##name##_small, 128, gabbro::gpu::SoftmaxArgs,             \
             softmax_vectors<T, gabbro::gpu::GABBRO_GPU::RowTeam::kBlock, 4>)   \
  GPU_KERNEL(softmax_##name##_block, 256, gabbro::gpu::SoftmaxArgs,             \
             softmax_vectors<T, gabbro::gpu::GABBRO_GPU::RowTeam::kBlock, 4>)   \
  GPU_KERNEL(softmax_##name##_wide, 512, gabbro::gpu::SoftmaxArgs,              \
             softmax_vectors<T, gabbro::gpu::GABBRO_GPU::RowTeam::kBlock, 4>)   \
  GPU_KERNEL(softmax_##name##_long, 1024, gabbro::gpu::SoftmaxArgs, softmax_long<T>)
GABBRO_SOFTMAX(f32, float)
GABBRO_SOFTMAX(f16, gabbro::gpu::Half)
GABBRO_SOFTMAX(bf16, gabbro::gpu::BFloat)
