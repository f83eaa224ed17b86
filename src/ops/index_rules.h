// Common part of the functions that read or write elements by index. Negative indices count from the end; others out of
// range raise IndexError: on a CPU when the result is computed, on a GPU at the next synchronization.
#pragma once

#include "src/graph/node.h"

namespace gabbro {

// The source of an index, for the message about one that is out of range: the function that was called and its axis.
struct IndexUse {
  const char* op;
  int64_t axis = 0;
};
// As attributes of an op that reads indices. `labels_attributes`: negative ones are out of range, and `ignored` selects
// nothing.
Attributes index_attributes(const IndexUse& use);
Attributes label_attributes(const IndexUse& use, int64_t ignored);

// Throws bad_input "[op] ..." unless the indices are integers.
void require_index_dtype(const char* op, const Tensor& indices);

// Indices in a dtype that kernels read, i32: i32 unchanged, and other integers as positions along an axis
// of `size`. Throws bad_input for other dtypes, and IndexError for indices along an axis without elements.
Tensor readable_indices(const Tensor& indices, int64_t size, const IndexUse& use);
Tensor readable_indices(const Tensor& indices, int64_t size, const IndexUse& use, const Attributes& attributes);

// Positions within [0, size), i32, of the shape of the indices; 0 for an ignored one.
Tensor positions_of(const Tensor& indices, int64_t size, const Attributes& attributes);

// outer · size + position of the indices, i32: the row of two axes in one; `outer` (i32, of the shape of the
// indices) is the position along the first axis.
Tensor joined_positions(const Tensor& outer, const Tensor& indices, int64_t size, Attributes attributes);

// x's elements at `indices` [K], of any integer dtype, along an axis: [..., K, ...]. x is read in place, however many
// axes are before this one.
Tensor pick(const Tensor& x, const Tensor& indices, int axis, const IndexUse& use);

// The ops of ops.h with these attributes: the gradients of ops that read indices have their checks and messages.
Tensor gather_rows(const Tensor& x, const Tensor& indices, const Attributes& attributes);
Tensor take_along_last(const Tensor& x, const Tensor& indices, const Attributes& attributes);
Tensor scatter_add_last(const Tensor& x, const Tensor& indices, const Tensor& values, const Attributes& attributes);
Tensor add_rows(const Tensor& x, const Tensor& indices, const Tensor& values, const Attributes& attributes);

}  // namespace gabbro
