// Elements by index along the last axis: `take_along` (an index outside reads the nearest element), `scatter_set` (one
// outside is left out; of equal indices the last counts), and sums of
// elements and of rows by index, `scatter_add` and `index_add` (one outside is left out; of i32 they wrap around). An
// element of a sum belongs to one thread, which adds in the order of the indices: the result does not depend on the
// device.
#include "kernels/scatter_add.h"

#include "kernels/gpu/gpu.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class T>
GPU_FUNCTION inline void take_along(const AlongArgs& a) {
  const i64 at = global_index();
  if (at >= a.rows * a.picks) return;
  const i64 index = min_of<i64>(max_of<i64>(a.indices[at], 0), a.columns - 1);
  static_cast<T*>(a.y)[at] = static_cast<const T*>(a.x)[at / a.picks * a.columns + index];
}

// T: float, or an unsigned number for i32 and i64.
template <class T>
GPU_FUNCTION inline void scatter_add(const AlongArgs& a) {
  const i64 at = global_index();
  if (at >= a.rows * a.columns) return;
  const i64 row = at / a.columns, column = at - row * a.columns;
  const i32* indices = a.indices + row * a.picks;
  const T* values = static_cast<const T*>(a.values) + row * a.picks;
  T sum = static_cast<const T*>(a.x)[at];
  for (i64 i = 0; i < a.picks; ++i) {
    if (indices[i] == column) sum += values[i];
  }
  static_cast<T*>(a.y)[at] = sum;
}

// A place takes the last value that is for it.
template <class T>
GPU_FUNCTION inline void scatter_set(const AlongArgs& a) {
  const i64 at = global_index();
  if (at >= a.rows * a.columns) return;
  const i64 row = at / a.columns, column = at - row * a.columns;
  const i32* indices = a.indices + row * a.picks;
  T value = static_cast<const T*>(a.x)[at];
  for (i64 i = a.picks - 1; i >= 0; --i) {
    if (indices[i] != column) continue;
    value = static_cast<const T*>(a.values)[row * a.picks + i];
    break;
  }
  static_cast<T*>(a.y)[at] = value;
}

template <class T>
GPU_FUNCTION inline void index_add(const AlongArgs& a) {
  constexpr u32 kPart = 1024;
  GPU_SHARED(i32, part, kPart);
  const i64 row = block_index().x;
  const T *x = static_cast<const T*>(a.x) + row * a.columns, *values = static_cast<const T*>(a.values);
  T* y = static_cast<T*>(a.y) + row * a.columns;
  for (i64 column = thread_index(); column < a.columns; column += block_size()) y[column] = x[column];
  for (i64 begin = 0; begin < a.picks; begin += kPart) {
    const u32 count = static_cast<u32>(min_of<i64>(kPart, a.picks - begin));
    barrier();
    for (u32 i = thread_index(); i < count; i += block_size()) part[i] = a.indices[begin + i];
    barrier();
    for (u32 i = 0; i < count; ++i) {
      if (part[i] != row) continue;
      const T* from = values + (begin + i) * a.columns;
      for (i64 column = thread_index(); column < a.columns; column += block_size()) y[column] += from[column];
    }
  }
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_TAKE(T)                                                                \
  GPU_KERNEL(take_along_##T, 256, gabbro::gpu::AlongArgs, take_along<gabbro::gpu::T>) \
  GPU_KERNEL(scatter_set_##T, 256, gabbro::gpu::AlongArgs, scatter_set<gabbro::gpu::T>)
GABBRO_TAKE(u8)
GABBRO_TAKE(u16)
GABBRO_TAKE(u32)
GABBRO_TAKE(u64)

GPU_KERNEL(scatter_add_f32, 256, gabbro::gpu::AlongArgs, scatter_add<float>)
GPU_KERNEL(scatter_add_i32, 256, gabbro::gpu::AlongArgs, scatter_add<gabbro::gpu::u32>)
GPU_KERNEL(scatter_add_i64, 256, gabbro::gpu::AlongArgs, scatter_add<gabbro::gpu::u64>)
GPU_KERNEL(index_add_f32, 256, gabbro::gpu::AlongArgs, index_add<float>)
GPU_KERNEL(index_add_i32, 256, gabbro::gpu::AlongArgs, index_add<gabbro::gpu::u32>)
GPU_KERNEL(index_add_i64, 256, gabbro::gpu::AlongArgs, index_add<gabbro::gpu::u64>)
