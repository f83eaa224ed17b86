#include "src/nn/pool.h"

#include <cmath>

#include "src/base/error.h"
#include "src/ops/rules.h"

namespace gabbro::nn {

Tensor Upsample::forward(const Tensor& x) {
  require_rank("upsample", x, 4);
  const auto scaled = [&](int axis) {
    return static_cast<int64_t>(std::floor(static_cast<double>(x.shape()[axis]) * options_.scale_factor));
  };
  const auto [height, width] = options_.size ? *options_.size : std::pair(scaled(2), scaled(3));
  if (!options_.bilinear) return upsample_nearest2d(x, height, width);
  return upsample_bilinear2d(x, height, width, options_.align_corners);
}

}  // namespace gabbro::nn
