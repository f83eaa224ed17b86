// Pooling and resizing of images [N, C, ...], named as in torch.nn.
#pragma once

#include "src/nn/module.h"

namespace gabbro::nn {

template <Tensor (*function)(const Tensor&, const PoolOptions&)>
class Pool : public Layer {
 public:
  explicit Pool(PoolOptions options) : options_(std::move(options)) {}
  Tensor forward(const Tensor& x) override { return function(x, options_); }

 private:
  PoolOptions options_;
};
using MaxPool1d = Pool<gabbro::max_pool1d>;
using MaxPool2d = Pool<gabbro::max_pool2d>;
using MaxPool3d = Pool<gabbro::max_pool3d>;
using AvgPool1d = Pool<gabbro::avg_pool1d>;
using AvgPool2d = Pool<gabbro::avg_pool2d>;
using AvgPool3d = Pool<gabbro::avg_pool3d>;

class AdaptiveAvgPool2d : public Layer {
 public:
  AdaptiveAvgPool2d(int64_t height, int64_t width) : height_(height), width_(width) {}
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, height_, width_); }

 private:
  int64_t height_, width_;
};

struct UpsampleOptions {
  std::optional<std::pair<int64_t, int64_t>> size{};  // height and width; or
  double scale_factor = 1;                            // what the lengths are multiplied by, rounded down
  bool bilinear = false;                              // else nearest
  bool align_corners = false;
};
class Upsample : public Layer {
 public:
  explicit Upsample(const UpsampleOptions& options) : options_(options) {}
  Tensor forward(const Tensor& x) override;

 private:
  UpsampleOptions options_;
};

}  // namespace gabbro::nn
