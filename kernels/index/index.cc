// Rows by index: `gather`, `resolve_index`, `scatter` (an index out of range is left out; of equal indices the last
// wins), and `iota`.
#include "kernels/index/index.h"

#include "kernels/gpu/flat_grid.h"
#include "kernels/index/index_position.h"

namespace gabbro::gpu::GABBRO_GPU {

template <class T>
GPU_FUNCTION inline void gather(const GatherArgs& a) {
  const i64 at = flat_index();
  if (at >= a.total) return;
  const i64 row = at / a.columns, column = at % a.columns;
  const i64 from = checked_position(a.check, a.indices[row]);
  static_cast<T*>(a.y)[at] = from < 0 ? T() : static_cast<const T*>(a.x)[from * a.row_step + column];
}

template <class T>
GPU_FUNCTION inline void resolve_index(const ResolveIndexArgs& a) {
  const i64 at = flat_index();
  if (at >= a.count) return;
  const i64 found = max_of<i64>(checked_position(a.check, static_cast<const T*>(a.indices)[at]), 0);
  for (i64 r = 0; r < a.repeats; ++r)
    a.y[r * a.count + at] = static_cast<i32>((a.outer == nullptr ? r : a.outer[at]) * a.check.size + found);
}

// Each block looks whether a later row has its index, so that blocks need not know of each other.
template <class T>
GPU_FUNCTION inline void scatter(const ScatterArgs& a) {
  GPU_SHARED(u32, overwritten, 1);
  const i64 row = flat_block();
  if (row >= a.count) return;
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

// Number `at` of start + i · step, in T; integers are held within their range.
template <class T>
struct Step {
  GPU_FUNCTION static T of(const IotaArgs& a, i64 at) {
    constexpr bool kUnsigned = static_cast<T>(-1) > 0;
    constexpr double kSize = static_cast<double>(u64{1} << (sizeof(T) * 8 - 1)) * (kUnsigned ? 2 : 1);
    const double value = a.start + a.step * static_cast<double>(at);
    return static_cast<T>(min_of(max_of(value, kUnsigned ? 0 : -kSize), kSize - 1));
  }
};
template <>
struct Step<i64> {
  GPU_FUNCTION static i64 of(const IotaArgs& a, i64 at) { return a.whole_start + static_cast<i64>(a.step) * at; }
};
template <>
struct Step<float> {
  GPU_FUNCTION static float of(const IotaArgs& a, i64 at) {
    return static_cast<float>(a.start + a.step * static_cast<double>(at));
  }
};
template <>
struct Step<Half> {
  GPU_FUNCTION static Half of(const IotaArgs& a, i64 at) { return to_half(Step<float>::of(a, at)); }
};
template <>
struct Step<BFloat> {
  GPU_FUNCTION static BFloat of(const IotaArgs& a, i64 at) { return to_bfloat(Step<float>::of(a, at)); }
};

template <class T>
GPU_FUNCTION inline void iota(const IotaArgs& a) {
  const i64 at = flat_index();
  if (at < a.total) static_cast<T*>(a.y)[at] = Step<T>::of(a, at);
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_ROWS(T)                                                         \
  GPU_KERNEL(gather_##T, 256, gabbro::gpu::GatherArgs, gather<gabbro::gpu::T>) \
  GPU_KERNEL(scatter_##T, 256, gabbro::gpu::ScatterArgs, scatter<gabbro::gpu::T>)
GABBRO_ROWS(u8)
GABBRO_ROWS(u16)
GABBRO_ROWS(u32)
GABBRO_ROWS(u64)

// For rows that are whole 16-byte vectors.
GPU_KERNEL(gather_vec16, 256, gabbro::gpu::GatherArgs, gather<gabbro::gpu::Vec16>)
#define GABBRO_RESOLVE(T) \
  GPU_KERNEL(resolve_index_##T, 256, gabbro::gpu::ResolveIndexArgs, resolve_index<gabbro::gpu::T>)
GABBRO_RESOLVE(i8)
GABBRO_RESOLVE(u8)
GABBRO_RESOLVE(i16)
GABBRO_RESOLVE(i32)
GABBRO_RESOLVE(i64)
GPU_KERNEL(iota_f32, 256, gabbro::gpu::IotaArgs, iota<float>)
GPU_KERNEL(iota_f16, 256, gabbro::gpu::IotaArgs, iota<gabbro::gpu::Half>)
GPU_KERNEL(iota_bf16, 256, gabbro::gpu::IotaArgs, iota<gabbro::gpu::BFloat>)
GPU_KERNEL(iota_i8, 256, gabbro::gpu::IotaArgs, iota<gabbro::gpu::i8>)
GPU_KERNEL(iota_u8, 256, gabbro::gpu::IotaArgs, iota<gabbro::gpu::u8>)
GPU_KERNEL(iota_bool, 256, gabbro::gpu::IotaArgs, iota<gabbro::gpu::u8>)
GPU_KERNEL(iota_i16, 256, gabbro::gpu::IotaArgs, iota<gabbro::gpu::i16>)
GPU_KERNEL(iota_i32, 256, gabbro::gpu::IotaArgs, iota<gabbro::gpu::i32>)
GPU_KERNEL(iota_i64, 256, gabbro::gpu::IotaArgs, iota<gabbro::gpu::i64>)
