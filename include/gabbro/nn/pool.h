// Pooling and resizing of images [N, C, ...], named as in torch.nn.
#pragma once

#include "gabbro/nn/module.h"
#include "gabbro/ops/resize.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

template <Tensor (*function)(const Tensor&, const PoolOptions&)>
class Pool : public Layer {
 public:
  explicit Pool(PoolOptions options) : options_(std::move(options)) {}
  const PoolOptions& options() const { return options_; }
  void set_options(PoolOptions options) { options_ = std::move(options); }
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
  AdaptiveAvgPool2d(int64_t height, int64_t width) : size_{height, width} {}
  explicit AdaptiveAvgPool2d(std::vector<int64_t> size) { set_size(std::move(size)); }
  const std::vector<int64_t>& size() const { return size_; }
  void set_size(std::vector<int64_t> size);  // height and width, or one number for both
  Tensor forward(const Tensor& x) override { return adaptive_avg_pool2d(x, size_.front(), size_.back()); }

 private:
  std::vector<int64_t> size_;
};

class Upsample : public Layer {
 public:
  explicit Upsample(InterpolateOptions options) : options_(std::move(options)) {}
  const InterpolateOptions& options() const { return options_; }
  void set_options(InterpolateOptions options) { options_ = std::move(options); }
  Tensor forward(const Tensor& x) override { return interpolate(x, options_); }

 private:
  InterpolateOptions options_;
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
