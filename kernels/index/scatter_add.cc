// Elements by index along the last axis: `take_along`, `scatter_set` (of equal indices the last counts), and sums of
// elements and of rows by index, `scatter_add` and `index_add` (of i32 they wrap around). An element of a sum belongs
// to one thread, which adds in the order of the indices: the result does not depend on the device. Negative indices
// count from the end; others out of range select nothing, and are reported. The threads of a row share that check.
#include "kernels/index/scatter_add.h"

#include "kernels/index/index_position.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class T>
GPU_FUNCTION inline void take_along(const AlongArgs& a) {
  const i64 at = global_index();
  if (at >= a.rows * a.picks) return;
  const i64 column = checked_position(a.check, a.indices[at]);
  static_cast<T*>(a.y)[at] = column < 0 ? T() : static_cast<const T*>(a.x)[at / a.picks * a.columns + column];
}

// The two indices that select one position: counted from the beginning and from the end.
struct Names {
  i32 first, second;
  GPU_FUNCTION bool has(i32 index) const { return index == first || index == second; }
};
GPU_FUNCTION inline Names names_of(const IndexCheck& check, i64 position) {
  constexpr i32 kNever = -2147483647 - 1;  // out of range for any axis
  if (position == check.ignored) return {kNever, kNever};
  return {static_cast<i32>(position), static_cast<i32>(check.least < 0 ? position - check.size : position)};
}

// Reports indices that are out of range: of number first, first + step, ...
GPU_FUNCTION inline void check_indices(const IndexCheck& check, const i32* indices, i64 count, i64 first, i64 step) {
  for (i64 i = first; i < count; i += step) checked_position(check, indices[i]);
}

// T: float, or an unsigned number for i32 and i64.
template <class T>
GPU_FUNCTION inline void scatter_add(const AlongArgs& a) {
  const i64 at = global_index();
  if (at >= a.rows * a.columns) return;
  const i64 row = at / a.columns, column = at - row * a.columns;
  const i32* indices = a.indices + row * a.picks;
  check_indices(a.check, indices, a.picks, column, a.columns);
  const Names names = names_of(a.check, column);
  const T* values = static_cast<const T*>(a.values) + row * a.picks;
  T sum = static_cast<const T*>(a.x)[at];
  for (i64 i = 0; i < a.picks; ++i) {
    if (names.has(indices[i])) sum += values[i];
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
  check_indices(a.check, indices, a.picks, column, a.columns);
  const Names names = names_of(a.check, column);
  T value = static_cast<const T*>(a.x)[at];
  for (i64 i = a.picks - 1; i >= 0; --i) {
    if (!names.has(indices[i])) continue;
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
  check_indices(a.check, a.indices, a.picks, row * block_size() + thread_index(), a.rows * block_size());
  const Names names = names_of(a.check, row);
  for (i64 column = thread_index(); column < a.columns; column += block_size()) y[column] = x[column];
  for (i64 begin = 0; begin < a.picks; begin += kPart) {
    const u32 count = static_cast<u32>(min_of<i64>(kPart, a.picks - begin));
    barrier();
    for (u32 i = thread_index(); i < count; i += block_size()) part[i] = a.indices[begin + i];
    barrier();
    for (u32 i = 0; i < count; ++i) {
      if (!names.has(part[i])) continue;
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
