// Helpers of the shape rules of several ops.
#pragma once

#include <initializer_list>

#include "gabbro/ops/elementwise.h"
#include "src/base/error.h"
#include "src/graph/node.h"

namespace gabbro {

struct KvLayer;         // ops.h
struct LatentLayer;     // ops.h
struct TokenPositions;  // ops.h

// Dtypes that ops take.
inline constexpr std::initializer_list<DType> kReal = {DType::f32, DType::f16, DType::bf16};
inline constexpr std::initializer_list<DType> kFloating = {DType::f32, DType::f16, DType::bf16, DType::f64};
inline constexpr std::initializer_list<DType> kInteger = {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64};
inline constexpr std::initializer_list<DType> kNumber = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8,
                                                         DType::u8,  DType::i16, DType::i32,  DType::i64};

// Each throws bad_input "[op] ..." unless the tensor is defined, has strided elements (no block format, not packed),
// has one of the dtypes (and such elements), or has the rank.
void require_defined(const char* op, const Tensor& x);
void require_plain(const char* op, const Tensor& x);
void require_dtype(const char* op, const Tensor& x, std::initializer_list<DType> allowed);
void require_rank(const char* op, const Tensor& x, int rank);

// The parts of a cache layer fit each other; the positions belong to `tokens` tokens (kv_cache.cc).
void require_cache(const char* op, const KvLayer& cache);
void require_latents(const char* op, const LatentLayer& cache);
void require_positions(const char* op, const TokenPositions& places, int64_t tokens);
int64_t dimension_of(const KvLayer& cache);  // D
int64_t dimension_of(const LatentLayer& cache);

// f16 or bf16, which are computed in f32: by separate kernels, or between casts.
inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// One result of this shape and dtype.
inline std::vector<TensorSpec> result(const Shape& shape, DType dtype) {
  return {TensorSpec{.shape = shape, .dtype = dtype}};
}

// An Op's `infer`: one result like the first input.
inline std::vector<TensorSpec> like_first(const Args& a) { return result(a[0].shape(), a[0].dtype()); }

inline Tensor in_f32(const Tensor& x) { return cast(x, DType::f32); }

// f(x) in f32, rounded to x's dtype; f64 stays f64.
template <class F>
Tensor computed_in_f32(const Tensor& x, F f) {
  return cast(f(is_half(x.dtype()) ? in_f32(x) : x), x.dtype());
}

// An elementwise primitive with a result like its first input.
inline Op elementwise_op(const char* name, Gradients (*gradient)(const GradientArgs& a)) {
  return {.name = name, .infer = like_first, .gradient = gradient, .elementwise = true};
}

// Records the op of a and b in the dtype in which they meet, one of `dtypes`, and in the shape to which they broadcast:
// kernels see stride 0 along broadcast axes.
Tensor broadcast_if_needed(const Tensor& x, const Shape& shape);
Tensor record_binary(const Op& op, const Tensor& a, const Tensor& b, std::initializer_list<DType> dtypes);

// The lengths of x's axes, to be changed.
inline std::vector<int64_t> lengths_of(const Tensor& x) {
  return {x.shape().lengths().begin(), x.shape().lengths().end()};
}

// `shape` with another length of its last axis.
Shape with_last(const Shape& shape, int64_t length);

}  // namespace gabbro
