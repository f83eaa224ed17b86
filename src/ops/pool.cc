// Pooling of images; resizing is functions/resize.cc.
#include <limits>

#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/rules.h"
#include "src/ops/window.h"

namespace gabbro {
namespace {

// The elements of each window of each plane; outside the plane everything is `value`: [planes, outputs, taps].
Tensor windows(const Tensor& x, const WindowAxes& w, double value) {
  const Shape& s = x.shape();
  Attributes attributes = window_attributes(w);
  attributes.set("value", value);
  const Tensor planes = reshape(x, Shape{s[0] * s[1], 1, s[2], s[3], s[4]});
  return permute(record(kIm2col, {planes}, attributes), {0, 2, 1});
}

// For each window, the place in its plane of what its tap 0 sees; and what a tap adds to that. i32 [outputs], [taps].
Tensor places(const Tensor& like, const WindowAxes& w, bool taps) {
  Tensor sum;
  int64_t inner = 1;
  for (size_t i = 3; i-- > 0; inner *= w.in[i]) {
    const int64_t count = taps ? w.kernel[i] : w.out[i], step = (taps ? w.dilation[i] : w.stride[i]) * inner;
    const int64_t start = taps ? 0 : -w.padding[i] * inner;
    if (count == 1 && start == 0 && sum.defined()) continue;  // an axis that the caller's images do not have
    const Tensor line = iota(like.device(), count, DType::i32, static_cast<double>(start), static_cast<double>(step));
    sum = sum.defined() ? reshape(line, Shape{count, 1}) + sum : line;  // [.., ..]
    sum = reshape(sum, Shape{sum.shape().elements()});
  }
  return sum;
}

// Each output's gradient goes to the first of the largest that its window saw.
Tensor to_the_largest(const Tensor& x, const Tensor& dy, const WindowAxes& w) {
  const int64_t planes = x.shape()[0] * x.shape()[1];
  const int64_t outputs = w.out[0] * w.out[1] * w.out[2], inputs = w.in[0] * w.in[1] * w.in[2];
  const Tensor tap = argmax(windows(x, w, -std::numeric_limits<double>::infinity()), -1);  // [planes, outputs]
  const Tensor offset = gather(places(x, w, true), reshape(tap, Shape{planes * outputs}));
  const Tensor place = reshape(offset, Shape{planes, outputs}) + places(x, w, false);
  const Tensor zeros = filled_like(dy, Shape{planes, inputs}, 0);
  // A window of nothing but -infinity may have its largest in the padding: that has no gradient.
  const Tensor least = number_like(place, 0), last = number_like(place, static_cast<double>(inputs - 1));
  const Tensor inside = logical_and(greater_equal(place, least), less_equal(place, last));
  const Tensor own = where_or_zero(inside, reshape(dy, Shape{planes, outputs}));
  return reshape(scatter_add(zeros, clamp(place, least, last), own), x.shape());
}

// Each output's gradient goes to all that its window saw, in equal shares.
Tensor to_all(const Tensor& x, const Tensor& dy, const WindowAxes& w, bool counts_padding) {
  const int64_t planes = x.shape()[0] * x.shape()[1], taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
  const Shape image{1, 1, w.in[0], w.in[1], w.in[2]}, outputs{1, 1, w.out[0], w.out[1], w.out[2]};
  const Tensor count = counts_padding ? scalar(x.device(), static_cast<double>(taps))
                                      : reshape(sum(windows(filled_like(x, image, 1), w, 0), -1), outputs);
  const Tensor share = reshape(dy, Shape{planes, 1, w.out[0], w.out[1], w.out[2]}) / count;
  Attributes attributes = window_attributes(w);
  attributes.set("groups", int64_t{1});
  const Tensor ones = filled_like(x, Shape{1, 1, w.kernel[0], w.kernel[1], w.kernel[2]}, 1);
  return reshape(record(kConvTranspose, {share, ones}, attributes), x.shape());
}

}  // namespace

// x [N, C, D, H, W] to [N, C, out...]: the largest that a window sees, or the mean.
const Op kPool = {
    .name = "pool",
    .infer =
        [](const Args& a) {
          const WindowAxes w = window_of(a.attributes);
          return result(Shape{a[0].shape()[0], a[0].shape()[1], w.out[0], w.out[1], w.out[2]}, a[0].dtype());
        },
    .compose =
        [](const Args& a) {
          const Tensor x = in_f32(a[0]);
          if (x.dtype() != a[0].dtype()) return std::vector{cast(record(kPool, {x}, a.attributes), a[0].dtype())};
          const WindowAxes w = window_of(a.attributes);
          const Shape shape{x.shape()[0], x.shape()[1], w.out[0], w.out[1], w.out[2]};
          if (a.attributes.integer("largest") != 0) {
            const Tensor seen = windows(x, w, -std::numeric_limits<double>::infinity());
            return std::vector{reshape(max(seen, -1), shape)};
          }
          const Tensor seen = windows(x, w, 0);
          if (a.attributes.integer("counts_padding") != 0) return std::vector{reshape(mean(seen, -1), shape)};
          const Tensor ones = broadcast_to(scalar(x.device(), 1), x.shape());
          return std::vector{reshape(sum(seen, -1) / sum(windows(ones, w, 0), -1), shape)};
        },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const WindowAxes w = window_of(a.attributes);
      if (a.attributes.integer("largest") != 0)
        return {record(kMaxPoolGradient, {a[0], a.gradients[0]}, window_attributes(w))};
      const bool counts_padding = a.attributes.integer("counts_padding") != 0;
      return {cast(to_all(in_f32(a[0]), in_f32(a.gradients[0]), w, counts_padding), a[0].dtype())};
    },
};

// x [N, C, D, H, W], dy [N, C, out...] to what x gets: each output's goes to the first of the largest that it saw.
const Op kMaxPoolGradient = {
    .name = "max_pool_gradient",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          const Tensor x = in_f32(a[0]), dy = in_f32(a[1]);
          if (x.dtype() == a[0].dtype()) return std::vector{to_the_largest(x, dy, window_of(a.attributes))};
          return std::vector{cast(record(kMaxPoolGradient, {x, dy}, a.attributes), a[0].dtype())};
        },
};

namespace {

Tensor pool(const char* op, const Tensor& x, const PoolOptions& o, int axes, bool largest) {
  require_dtype(op, x, kReal);
  require_rank(op, x, axes + 2);
  WindowAxes w;
  set_axes(op, "kernel", o.kernel, axes, 1, w.kernel);
  set_axes(op, "stride", o.stride.empty() ? o.kernel : o.stride, axes, 1, w.stride);
  set_axes(op, "padding", o.padding, axes, 0, w.padding);
  set_axes(op, "dilation", o.dilation, axes, 1, w.dilation);
  for (size_t i = 0; i < 3; ++i) {
    if (2 * w.padding[i] > (w.kernel[i] - 1) * w.dilation[i] + 1) {
      throw bad_input("[{}] a padding of {} is more than half of the window of {} (dilation {}) of x {}", op,
                      w.padding[i], w.kernel[i], w.dilation[i], x.shape().to_string());
    }
  }
  const Tensor image = with_three_axes(x, axes);
  set_outputs(op, image, x.shape(), w);
  Attributes attributes = window_attributes(w);
  attributes.set("largest", int64_t{largest});
  attributes.set("counts_padding", int64_t{o.counts_padding});
  return with_axes(record(kPool, {image}, attributes), axes);
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const PoolOptions& options) { return pool("max_pool1d", x, options, 1, true); }
Tensor max_pool2d(const Tensor& x, const PoolOptions& options) { return pool("max_pool2d", x, options, 2, true); }
Tensor max_pool3d(const Tensor& x, const PoolOptions& options) { return pool("max_pool3d", x, options, 3, true); }
Tensor avg_pool1d(const Tensor& x, const PoolOptions& options) { return pool("avg_pool1d", x, options, 1, false); }
Tensor avg_pool2d(const Tensor& x, const PoolOptions& options) { return pool("avg_pool2d", x, options, 2, false); }
Tensor avg_pool3d(const Tensor& x, const PoolOptions& options) { return pool("avg_pool3d", x, options, 3, false); }

}  // namespace gabbro
