// RMSNorm (Zhang & Sennrich 2019): y = x / sqrt(mean(x²) + epsilon) · weight; accumulated in f32.
#include "kernels/rows/rms_norm.h"

#include "kernels/gpu/flat_grid.h"

namespace gabbro::gpu::GABBRO_GPU {

// body(k) for this thread's share of [0, columns).
template <class Body>
GPU_FUNCTION inline void for_columns(i32 columns, Body body) {
#pragma unroll 4
  for (i32 k = static_cast<i32>(thread_index()); k < columns; k += static_cast<i32>(block_size())) body(k);
}

GPU_FUNCTION inline void rms_norm(const RowsArgs& a) {
  if (flat_block() >= a.rows) return;
  const i64 row = flat_block() * a.columns;
  float squares = 0;
  for_columns(a.columns, [&](i32 k) { squares = fma(a.x[row + k], a.x[row + k], squares); });
  const float factor = 1 / sqrt(block_sum(squares) / static_cast<float>(a.columns) + a.epsilon);
  const i32 begin = static_cast<i32>(block_index().y) * a.slice;
  for_columns(min_of(a.slice, a.columns - begin),
              [&](i32 k) { a.y[row + begin + k] = a.x[row + begin + k] * factor * a.weight[begin + k]; });
}

}  // namespace gabbro::gpu::GABBRO_GPU

GPU_KERNEL(rms_norm, 256, gabbro::gpu::RowsArgs, rms_norm)
