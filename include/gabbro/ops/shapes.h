// Functions that change shapes: views, which move no element, and copies. As the Python array API standard (and NumPy
// beyond it) has them. Each throws bad_input "[name] ..." for axes that a tensor does not have and shapes that do not
// fit.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "gabbro/ops/axes.h"
#include "gabbro/ops/promotion.h"

#pragma GCC visibility push(default)
namespace gabbro {

// Views: no element moves.
Tensor reshape(const Tensor& x, const Shape& shape);  // same number of elements
Tensor permute(const Tensor& x, std::vector<int> axes);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t length, int64_t step = 1);
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
Tensor concat(const std::vector<Tensor>& parts, int64_t axis);
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
// x [..., M, N] with zeros above (below) the diagonal that begins at column `diagonal`.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);

}  // namespace gabbro
#pragma GCC visibility pop
