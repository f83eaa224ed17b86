// Creation, shapes and indexing as the Python array API standard (and NumPy beyond it) has them. Functions on lazy
// tensors, made of the ops of ops.h. Sizes that do not fit are refused by Shape, which holds up to 2^48 elements.
#pragma once

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "src/ops/ops.h"

namespace gabbro {

using DevicePointer = std::shared_ptr<Device>;

// Creation. zeros, ones and full (ops.h) take no memory for each element until something writes them out.
Tensor zeros(const DevicePointer& device, const Shape& shape, DType dtype = kDefaultFloat);
Tensor ones(const DevicePointer& device, const Shape& shape, DType dtype = kDefaultFloat);
Tensor full_like(const Tensor& x, const Number& number, std::optional<DType> dtype = {});
Tensor zeros_like(const Tensor& x, std::optional<DType> dtype = {});
Tensor ones_like(const Tensor& x, std::optional<DType> dtype = {});
// start, start + step, ... before stop. The dtype: i32 if the three are whole, else f32.
Tensor arange(const DevicePointer& device, const Number& start, const Number& stop, const Number& step = 1,
              std::optional<DType> dtype = {});
// `count` numbers from start to stop, which is the last of them, or (endpoint = false) the one after.
Tensor linspace(const DevicePointer& device, double start, double stop, int64_t count, bool endpoint = true,
                DType dtype = kDefaultFloat);
// Ones on the diagonal that begins at column `diagonal`; and (tri) also below it.
Tensor eye(const DevicePointer& device, int64_t rows, int64_t columns, int64_t diagonal = 0,
           DType dtype = kDefaultFloat);
Tensor tri(const DevicePointer& device, int64_t rows, int64_t columns, int64_t diagonal = 0,
           DType dtype = kDefaultFloat);
// Coordinates on the grid of the vectors: tensor i has [n_0, n_1, ...] and varies along axis i; with `xy` the first two
// axes change places.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, bool xy = false);

// Views: no element moves.
Tensor squeeze(const Tensor& x, const Axes& axes = kAllAxes);  // without these axes of length 1; kAllAxes: any such
Tensor expand_dims(const Tensor& x, const Axes& axes);         // new axes, which have these places in the result
Tensor moveaxis(const Tensor& x, const std::vector<int64_t>& from, const std::vector<int64_t>& to);
Tensor swapaxes(const Tensor& x, int64_t a, int64_t b);
Tensor matrix_transpose(const Tensor& x);  // the last two axes
Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);
std::vector<Tensor> broadcast_arrays(const std::vector<Tensor>& all);
std::vector<Tensor> unstack(const Tensor& x, int64_t axis = 0);
// Into parts of equal length; or at these places, as numpy.split.
std::vector<Tensor> split(const Tensor& x, int64_t parts, int64_t axis = 0);
std::vector<Tensor> split_at(const Tensor& x, const std::vector<int64_t>& places, int64_t axis = 0);

// Copies.
Tensor stack(const std::vector<Tensor>& parts, int64_t axis = 0);
enum class PadMode { kConstant, kReflect, kEdge };
// `widths`: what is added before and after each axis; one pair stands for all axes. kReflect mirrors about the edge
// element, once.
Tensor pad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& widths, PadMode mode = PadMode::kConstant,
           const Number& value = 0);
Tensor repeat(const Tensor& x, int64_t times, std::optional<int64_t> axis = {});  // each element; none: of x made flat
Tensor tile(const Tensor& x, const std::vector<int64_t>& times);                  // x as a whole
Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const Axes& axes);
Tensor roll(const Tensor& x, int64_t shift);  // of x made flat
Tensor flip(const Tensor& x, const Axes& axes = kAllAxes);

// Indexing. Indices are of any integer dtype; negative ones count from the end, and others out of range raise
// IndexError when the result is computed (pick.h).
Tensor take(const Tensor& x, const Tensor& indices, int64_t axis = 0);  // indices' axes replace the axis
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
