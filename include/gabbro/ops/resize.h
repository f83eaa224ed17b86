// Resizing of images [N, C, H, W] as torch.nn.functional.interpolate does it.
#pragma once

#include <vector>

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

enum class Interpolation { kNearest, kNearestExact, kBilinear, kArea };

struct InterpolateOptions {
  Interpolation mode = Interpolation::kNearest;
  std::vector<int64_t> size{};         // height and width, or one number for both; or
  std::vector<double> scale_factor{};  // what the lengths are multiplied by, rounded down
  // Output o stands for the position (o + 0.5) / scale_factor - 0.5; with this, as with `size`, for
  // (o + 0.5) · in / out - 0.5, which differs where in · scale_factor is not an integer.
  bool recompute_scale_factor = false;
  bool align_corners = false;  // bilinear: the centers of the corner elements are mapped to each other
};
// Throws bad_input "[interpolate] ..." for options that do not fit each other or x.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace gabbro
#pragma GCC visibility pop
