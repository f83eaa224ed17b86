// Common code of the ops that slide a window over images: x [N, C, ...] with one to three spatial axes; kernels always
// have three, [N, C, D, H, W].
#pragma once

#include <array>

#include "src/ops/ops.h"

namespace gabbro {

struct WindowAxes {
  std::array<int64_t, 3> in{1, 1, 1}, kernel{1, 1, 1}, out{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0},
      dilation{1, 1, 1};
};

// [N, C, ...] of `axes` spatial axes as [N, C, D, H, W], and back with the lengths of a window.
Tensor with_three_axes(const Tensor& x, int axes);
Tensor with_axes(const Tensor& x, int axes);

// `numbers` holds one number for all axes, or one for each of `axes`; the last axes are set.
// Throws bad_input "[op] ..." that names `what` unless each is at least `least`.
void set_axes(const char* op, const char* what, const std::vector<int64_t>& numbers, int axes, int64_t least,
              std::array<int64_t, 3>& into);

// in and out, of x [N, C, D, H, W] and the others; throws bad_input, with the shape that the caller gave, where the
// window does not fit in x.
void set_outputs(const char* op, const Tensor& x, const Shape& given, WindowAxes& window);

// The attributes of the kernels, and the window again from them.
Attributes window_attributes(const WindowAxes& window);
WindowAxes window_of(const Attributes& attributes);

}  // namespace gabbro
