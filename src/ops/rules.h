// Helpers of the shape rules of several ops.
#pragma once

#include <initializer_list>

#include "src/base/error.h"
#include "src/graph/node.h"

namespace gabbro {

struct KvLayer;         // ops.h
struct TokenPositions;  // ops.h

// Each throws bad_input "[op] ..." unless the tensor is defined, has strided elements (no block format, not packed),
// has one of the dtypes (and such elements), or has the rank.
void require_defined(const char* op, const Tensor& x);
void require_plain(const char* op, const Tensor& x);
void require_dtype(const char* op, const Tensor& x, std::initializer_list<DType> allowed);
void require_rank(const char* op, const Tensor& x, int rank);

// The parts of a cache layer fit each other; the places are those of `tokens` tokens (kv_cache.cc).
void require_cache(const char* op, const KvLayer& cache);
void require_positions(const char* op, const TokenPositions& places, int64_t tokens);

// f16 or bf16, which are computed in f32: by separate kernels, or between casts.
inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// One result of this shape and dtype.
inline std::vector<TensorSpec> result(const Shape& shape, DType dtype) {
  return {TensorSpec{.shape = shape, .dtype = dtype}};
}

// The lengths of x's axes, to be changed.
inline std::vector<int64_t> lengths_of(const Tensor& x) {
  return {x.shape().lengths().begin(), x.shape().lengths().end()};
}

// `shape` with another length of its last axis.
Shape with_last(const Shape& shape, int64_t length);

}  // namespace gabbro
