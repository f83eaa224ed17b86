// Elements by index. Indices are of any integer dtype; negative ones count from the end, and others out of range throw
// IndexError: on a CPU when the result is computed, on a GPU at the next synchronization.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

Tensor gather(const Tensor& x, const Tensor& indices);  // rows: x [R, ...], i32 [T] -> [T, ...]
// x[..., indices[..., k, ...], ...] along an axis, as torch.gather: indices have x's other axes.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, int64_t axis = -1);
Tensor take(const Tensor& x, const Tensor& indices, int64_t axis = 0);  // indices' axes replace the axis
// x with values[..., k, ...] added where indices[..., k, ...] says along an axis; indices and values have one shape.
// And x [R, ...] with rows values [K, ...] added to rows indices [K]. Takes f32, i32, and f16, bf16 in
// f32. Terms are added in the order of k: the same bits every time.
Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& values, int64_t axis = -1);
Tensor index_add(const Tensor& x, const Tensor& indices, const Tensor& values);
// x with values[..., k, ...] where indices[..., k, ...] says along an axis; of equal indices the last counts.
Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Tensor& values, int64_t axis = -1);

struct NewAxis {};
struct Ellipsis {};
struct Slice {
  std::optional<int64_t> start{}, stop{};
  int64_t step = 1;
};
using Index = std::variant<int64_t, Slice, NewAxis, Ellipsis, Tensor>;
// x[indices] as NumPy reads it: numbers, slices (also of negative step), new axes, an ellipsis, tensors of integers,
// and bool masks (which are evaluated: the result's shape depends on them). Throws bad_input; an index of a tensor that
// is out of range raises IndexError.
Tensor index(const Tensor& x, const std::vector<Index>& indices);

// These evaluate their argument: the shapes of what they give depend on its elements.
std::vector<Tensor> nonzero(const Tensor& x);  // for each axis, the places i32 [count] of what is not zero, in order
struct Unique {
  Tensor values;   // [count], sorted; NaNs are distinct
  Tensor indices;  // i32 [count]: where each is first in x made flat
  Tensor inverse;  // i32, x's shape: which value each element is
  Tensor counts;   // i32 [count]
};
Unique unique(const Tensor& x);

}  // namespace gabbro
#pragma GCC visibility pop
