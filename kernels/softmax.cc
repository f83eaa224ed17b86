// Softmax over the last axis, y = e^(x - max x) / sum e^(x - max x), and its logarithm; accumulated in f32. A row of
// -inf, or with a NaN, gives NaN.
#include "kernels/softmax.h"

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class T, bool logarithm>
GPU_FUNCTION inline void softmax(const SoftmaxArgs& a) {
  const i64 row = static_cast<i64>(block_index().x) * a.columns;
  const T* x = static_cast<const T*>(a.x) + row;
  T* y = static_cast<T*>(a.y) + row;
  const i32 first = static_cast<i32>(thread_index()), step = static_cast<i32>(block_size());
  float highest = -3.4028235e38f;
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) highest = max_of(highest, to_float(x[k]));
  highest = block_max(highest);
  float sum = 0;
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) sum += exp(to_float(x[k]) - highest);
  sum = block_sum(sum);
  const float inverse = 1 / sum, log_sum = logarithm ? log(sum) : 0;
#pragma unroll 4
  for (i32 k = first; k < a.columns; k += step) {
    const float distance = to_float(x[k]) - highest;
    y[k] = from_float<T>(logarithm ? distance - log_sum : exp(distance) * inverse);
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_SOFTMAX(name, T)                                                \
  GPU_KERNEL(softmax_##name, 256, gabbro::gpu::SoftmaxArgs, softmax<T, false>) \
  GPU_KERNEL(log_softmax_##name, 256, gabbro::gpu::SoftmaxArgs, softmax<T, true>)
GABBRO_SOFTMAX(f32, float)
GABBRO_SOFTMAX(f16, gabbro::gpu::Half)
GABBRO_SOFTMAX(bf16, gabbro::gpu::BFloat)
