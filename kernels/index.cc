// Rows by index: `gather` (an index outside reads the nearest row), `scatter` (one outside is left out; of equal
// indices the last wins), and `iota`.
#include "kernels/index.h"

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class T>
GPU_FUNCTION inline void gather(const GatherArgs& a) {
  const i64 at = global_index();
  if (at >= a.total) return;
  const i64 row = at / a.columns, column = at % a.columns;
  const i64 index = min_of<i64>(max_of<i64>(a.indices[row], 0), a.rows - 1);
  static_cast<T*>(a.y)[at] = static_cast<const T*>(a.x)[index * a.row_step + column];
}

// Each block looks whether a later row has its index, so that blocks need not know of each other.
template <class T>
GPU_FUNCTION inline void scatter(const ScatterArgs& a) {
  GPU_SHARED(u32, overwritten, 1);
  const i64 row = block_index().x;
  const i32 index = a.indices[row];
  if (index < 0 || index >= a.target_rows) return;
  if (thread_index() == 0) overwritten[0] = 0;
  barrier();
  for (i64 later = row + 1 + thread_index(); later < a.count; later += block_size()) {
    if (a.indices[later] == index) overwritten[0] = 1;
  }
  barrier();
  if (overwritten[0] != 0) return;
  const T* from = static_cast<const T*>(a.rows) + row * a.row_step;
  T* to = static_cast<T*>(a.target) + index * a.target_step;
  for (i64 column = thread_index(); column < a.columns; column += block_size()) to[column] = from[column];
}

GPU_FUNCTION inline void store_number(float* y, double value) { *y = static_cast<float>(value); }
GPU_FUNCTION inline void store_number(i32* y, double value) {
  *y = static_cast<i32>(min_of(max_of(value, -2147483648.0), 2147483647.0));
}

template <class T>
GPU_FUNCTION inline void iota(const IotaArgs& a) {
  const i64 at = global_index();
  if (at < a.total) store_number(static_cast<T*>(a.y) + at, a.start + a.step * static_cast<double>(at));
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_ROWS(T)                                                         \
  GPU_KERNEL(gather_##T, 256, gabbro::gpu::GatherArgs, gather<gabbro::gpu::T>) \
  GPU_KERNEL(scatter_##T, 256, gabbro::gpu::ScatterArgs, scatter<gabbro::gpu::T>)
GABBRO_ROWS(u8)
GABBRO_ROWS(u16)
GABBRO_ROWS(u32)
GABBRO_ROWS(u64)

GPU_KERNEL(iota_f32, 256, gabbro::gpu::IotaArgs, iota<float>)
GPU_KERNEL(iota_i32, 256, gabbro::gpu::IotaArgs, iota<gabbro::gpu::i32>)
