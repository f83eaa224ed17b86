// What the shape rules of several ops share.
#pragma once

#include <initializer_list>

#include "src/base/error.h"
#include "src/graph/node.h"

namespace gabbro {

// Throws bad_input "[op] ..." unless the tensor has one of the dtypes, or the rank.
void require_dtype(const char* op, const Tensor& x, std::initializer_list<DType> allowed);
void require_rank(const char* op, const Tensor& x, int rank);

// One result of this shape and dtype.
inline std::vector<TensorSpec> result(const Shape& shape, DType dtype) {
  return {TensorSpec{.shape = shape, .dtype = dtype}};
}

// `shape` with another length of its last axis.
Shape with_last(const Shape& shape, int64_t length);

}  // namespace gabbro
