// Elementwise functions of tensors; what each is stands in elementwise.h.
#include "kernels/elementwise/elementwise.h"

#include "kernels/elementwise/op_list.h"
#include "kernels/elementwise/strided_access.h"
#include "kernels/gpu/flat_grid.h"
#include "kernels/rows/row_vectors.h"

namespace gabbro::gpu::GABBRO_GPU {

// Position of a thread's 16 bytes in the result.
struct VectorPosition {
  i64 row, column;  // of the slower and of the faster axis
};

template <class T>
GPU_FUNCTION inline VectorPosition vector_position(const ElementwiseArgs& a, i64 vector) {
  if (a.axes.rank == 1) return {0, vector * RowVector<T>::kElements};
  const u32 vectors = static_cast<u32>(a.axes.shape[0]) / RowVector<T>::kElements,
            row = static_cast<u32>(vector) / vectors;
  return {row, static_cast<i64>(static_cast<u32>(vector) - row * vectors) * RowVector<T>::kElements};
}

// These 16 bytes of an input, or as many times its number.
template <class T>
GPU_FUNCTION inline RowVector<T> read_vector(const ElementwiseArgs& a, int input, const VectorPosition& place) {
  const auto* x = static_cast<const T*>(a.in[input]) + place.row * a.axes.strides[input][1];
  if (a.axes.strides[input][0] != 0) return *reinterpret_cast<const RowVector<T>*>(x + place.column);
  const T number = x[0];
  RowVector<T> all;
#pragma unroll
  for (int e = 0; e < RowVector<T>::kElements; ++e) all.value[e] = number;
  return all;
}

// of(e) is element e of the thread's 16 bytes of the result.
template <class T, class Of>
GPU_FUNCTION inline void write_vector(const ElementwiseArgs& a, i64 vector, Of of) {
  RowVector<T> y;
#pragma unroll
  for (int e = 0; e < RowVector<T>::kElements; ++e) y.value[e] = of(e);
  static_cast<RowVector<T>*>(a.out)[vector] = y;
}

template <class F, class T>
GPU_FUNCTION inline void unary(const ElementwiseArgs& a) {
  if (a.vectors) {
    const i64 vector = flat_index();
    if (vector * RowVector<T>::kElements >= a.axes.total) return;
    const RowVector<T> x = read_vector<T>(a, 0, vector_position<T>(a, vector));
    return write_vector<T>(a, vector, [&](int e) { return Narrowed<T>::of(F::of(widened(x.value[e]))); });
  }
  const auto* x = static_cast<const T*>(a.in[0]);
  auto* y = static_cast<T*>(a.out);
  for_elements<T, 1>(
      a.axes, [&](const i64* at) { return Narrowed<T>::of(F::of(widened(x[at[0]]))); },
      [&](i64 i, T value) { y[i] = value; });
}

template <class F, class T, class Result>
GPU_FUNCTION inline void binary(const ElementwiseArgs& a) {
  // Divisions of sixteen small integers would be sixteen times the code.
  if constexpr (Type<T>::kind != Kind::kInteger && sizeof(T) == sizeof(Result)) {
    if (a.vectors) {
      const i64 vector = flat_index();
      if (vector * RowVector<T>::kElements >= a.axes.total) return;
      const VectorPosition place = vector_position<T>(a, vector);
      const RowVector<T> x0 = read_vector<T>(a, 0, place), x1 = read_vector<T>(a, 1, place);
      return write_vector<Result>(
          a, vector, [&](int e) { return Narrowed<Result>::of(F::of(widened(x0.value[e]), widened(x1.value[e]))); });
    }
  }
  const T *x0 = static_cast<const T*>(a.in[0]), *x1 = static_cast<const T*>(a.in[1]);
  auto* y = static_cast<Result*>(a.out);
  for_elements<Result, 2>(
      a.axes, [&](const i64* at) { return Narrowed<Result>::of(F::of(widened(x0[at[0]]), widened(x1[at[1]]))); },
      [&](i64 i, Result value) { y[i] = value; });
}

// x, lowest, highest.
template <class T>
GPU_FUNCTION inline void clamp(const ElementwiseArgs& a) {
  const T *x = static_cast<const T*>(a.in[0]), *low = static_cast<const T*>(a.in[1]),
          *high = static_cast<const T*>(a.in[2]);
  auto* y = static_cast<T*>(a.out);
  for_elements<T, 3>(
      a.axes,
      [&](const i64* at) {
        return Narrowed<T>::of(Minimum::of(Maximum::of(widened(x[at[0]]), widened(low[at[1]])), widened(high[at[2]])));
      },
      [&](i64 i, T value) { y[i] = value; });
}

template <class T>
GPU_FUNCTION inline void where(const ElementwiseArgs& a) {
  const auto* condition = static_cast<const u8*>(a.in[0]);
  const T *x0 = static_cast<const T*>(a.in[1]), *x1 = static_cast<const T*>(a.in[2]);
  auto* y = static_cast<T*>(a.out);
  for_elements<T, 3>(
      a.axes, [&](const i64* at) { return condition[at[0]] != 0 ? x0[at[1]] : x1[at[2]]; },
      [&](i64 i, T value) { y[i] = value; });
}

template <class T>
GPU_FUNCTION inline void copy(const ElementwiseArgs& a) {
  const auto* x = static_cast<const T*>(a.in[0]);
  auto* y = static_cast<T*>(a.out);
  for_elements<T, 1>(
      a.axes, [&](const i64* at) { return x[at[0]]; }, [&](i64 i, T value) { y[i] = value; });
}

template <class T>
GPU_FUNCTION inline void concat(const ConcatArgs& a) {
  const auto* x = static_cast<const T*>(a.in);
  auto* y = static_cast<T*>(a.out);
  for_elements<T, 1>(
      a.axes, [&](const i64* at) { return x[at[0]]; },
      [&](i64 i, T value) { y[i / a.inner * a.outer + a.before + i % a.inner] = value; });
}

}  // namespace gabbro::gpu::GABBRO_GPU

#define GABBRO_UNARY(name, F)                                                                                     \
  GPU_KERNEL(name##_f32, 256, gabbro::gpu::ElementwiseArgs, unary<gabbro::gpu::GABBRO_GPU::F, float>)             \
  GPU_KERNEL(name##_f16, 256, gabbro::gpu::ElementwiseArgs, unary<gabbro::gpu::GABBRO_GPU::F, gabbro::gpu::Half>) \
  GPU_KERNEL(name##_bf16, 256, gabbro::gpu::ElementwiseArgs, unary<gabbro::gpu::GABBRO_GPU::F, gabbro::gpu::BFloat>)
GABBRO_UNARY_OPS(GABBRO_UNARY)

#define GABBRO_ARITHMETIC_OF(name, F, dtype, T) \
  GPU_KERNEL(name##_##dtype, 256, gabbro::gpu::ElementwiseArgs, binary<gabbro::gpu::GABBRO_GPU::F, T, T>)
#define GABBRO_OF_FLOATS(name, F)                       \
  GABBRO_ARITHMETIC_OF(name, F, f32, float)             \
  GABBRO_ARITHMETIC_OF(name, F, f16, gabbro::gpu::Half) \
  GABBRO_ARITHMETIC_OF(name, F, bf16, gabbro::gpu::BFloat)
#define GABBRO_OF_INTEGERS(name, F)                    \
  GABBRO_ARITHMETIC_OF(name, F, i8, gabbro::gpu::i8)   \
  GABBRO_ARITHMETIC_OF(name, F, u8, gabbro::gpu::u8)   \
  GABBRO_ARITHMETIC_OF(name, F, i16, gabbro::gpu::i16) \
  GABBRO_ARITHMETIC_OF(name, F, i32, gabbro::gpu::i32) \
  GABBRO_ARITHMETIC_OF(name, F, i64, gabbro::gpu::i64)
#define GABBRO_ARITHMETIC(name, F) \
  GABBRO_OF_FLOATS(name, F)        \
  GABBRO_OF_INTEGERS(name, F)
GABBRO_ARITHMETIC_OPS(GABBRO_ARITHMETIC)
GABBRO_OPS_OF_FLOATS(GABBRO_OF_FLOATS)
GABBRO_OPS_OF_INTEGERS(GABBRO_OF_INTEGERS)

#define GABBRO_COMPARISON_OF(name, F, dtype, T) \
  GPU_KERNEL(name##_##dtype, 256, gabbro::gpu::ElementwiseArgs, binary<gabbro::gpu::GABBRO_GPU::F, T, gabbro::gpu::u8>)
#define GABBRO_COMPARISON(name, F)                         \
  GABBRO_COMPARISON_OF(name, F, f32, float)                \
  GABBRO_COMPARISON_OF(name, F, f16, gabbro::gpu::Half)    \
  GABBRO_COMPARISON_OF(name, F, bf16, gabbro::gpu::BFloat) \
  GABBRO_COMPARISON_OF(name, F, i8, gabbro::gpu::i8)       \
  GABBRO_COMPARISON_OF(name, F, u8, gabbro::gpu::u8)       \
  GABBRO_COMPARISON_OF(name, F, i16, gabbro::gpu::i16)     \
  GABBRO_COMPARISON_OF(name, F, i32, gabbro::gpu::i32)     \
  GABBRO_COMPARISON_OF(name, F, i64, gabbro::gpu::i64)
GABBRO_COMPARISON_OPS(GABBRO_COMPARISON)

#define GABBRO_LOGICAL(name, F)                              \
  GPU_KERNEL(name##_bool, 256, gabbro::gpu::ElementwiseArgs, \
             binary<gabbro::gpu::GABBRO_GPU::F, gabbro::gpu::u8, gabbro::gpu::u8>)
GABBRO_LOGICAL_OPS(GABBRO_LOGICAL)

GPU_KERNEL(clamp_f32, 256, gabbro::gpu::ElementwiseArgs, clamp<float>)
GPU_KERNEL(clamp_f16, 256, gabbro::gpu::ElementwiseArgs, clamp<gabbro::gpu::Half>)
GPU_KERNEL(clamp_bf16, 256, gabbro::gpu::ElementwiseArgs, clamp<gabbro::gpu::BFloat>)
GPU_KERNEL(clamp_i32, 256, gabbro::gpu::ElementwiseArgs, clamp<gabbro::gpu::i32>)

#define GABBRO_MOVES(T)                                                           \
  GPU_KERNEL(copy_##T, 256, gabbro::gpu::ElementwiseArgs, copy<gabbro::gpu::T>)   \
  GPU_KERNEL(where_##T, 256, gabbro::gpu::ElementwiseArgs, where<gabbro::gpu::T>) \
  GPU_KERNEL(concat_##T, 256, gabbro::gpu::ConcatArgs, concat<gabbro::gpu::T>)
GABBRO_MOVES(u8)
GABBRO_MOVES(u16)
GABBRO_MOVES(u32)
GABBRO_MOVES(u64)
// For inputs whose rows are whole 16-byte vectors.
GPU_KERNEL(copy_vec16, 256, gabbro::gpu::ElementwiseArgs, copy<gabbro::gpu::Vec16>)
GPU_KERNEL(concat_vec16, 256, gabbro::gpu::ConcatArgs, concat<gabbro::gpu::Vec16>)
