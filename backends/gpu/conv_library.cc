#include "backends/gpu/conv_library.h"

#include <climits>

namespace gabbro::gpu {

std::optional<ConvDimensions> dimensions_of(const api::ConvShape& shape) {
  const bool volume = shape.in[0] != 1 || shape.kernel[0] != 1 || shape.out[0] != 1;
  const int first = volume ? 0 : 1;  // of the axes
  ConvDimensions d{};
  d.spatial = 3 - first;
  d.rank = d.spatial + 2;
  d.groups = static_cast<int>(shape.groups);
  bool fits = shape.groups <= INT_MAX;
  const auto lay_out = [&](int(&lengths)[5], int(&strides)[5], int64_t outer, int64_t channels,
                           const int64_t(&axes)[3]) {
    int64_t sizes[5] = {outer, channels};
    for (int i = 0; i < d.spatial; ++i) sizes[2 + i] = axes[first + i];
    int64_t stride = 1;
    for (int i = d.rank - 1; i >= 0; --i) {
      fits = fits && sizes[i] > 0 && sizes[i] <= INT_MAX && stride <= INT_MAX;
      if (!fits) return;
      lengths[i] = static_cast<int>(sizes[i]);
      strides[i] = static_cast<int>(stride);
      stride *= sizes[i];
    }
    fits = fits && stride <= INT_MAX;
  };
  lay_out(d.x, d.x_strides, shape.images, shape.groups * shape.in_channels, shape.in);
  lay_out(d.w, d.w_strides, shape.groups * shape.out_channels, shape.in_channels, shape.kernel);
  lay_out(d.y, d.y_strides, shape.images, shape.groups * shape.out_channels, shape.out);
  for (int i = 0; i < d.spatial; ++i) {
    for (const auto& [target, source] : {std::pair{d.padding, shape.padding}, std::pair{d.stride, shape.stride},
                                         std::pair{d.dilation, shape.dilation}}) {
      fits = fits && source[first + i] <= INT_MAX;
      target[i] = static_cast<int>(source[first + i]);
    }
  }
  if (!fits) return std::nullopt;
  return d;
}

}  // namespace gabbro::gpu
