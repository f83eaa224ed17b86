// Resizing of images: adaptive pooling and interpolation.
#include "gabbro/ops/resize.h"

#include <cmath>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

enum Mode : int64_t { kMean, kNearest, kBilinear };  // backends/common/window_request.h

// The matrix [out, in]: each row makes one output. `fixed`: inputs from one output to the next; 0: in / out.
Tensor resize_matrix(const Tensor& like, int64_t in, int64_t out, double fixed, const Attributes& attributes) {
  const auto numbers = [&](int64_t count, DType dtype, double start, double step, bool column) {
    const Tensor line = iota(like.device(), count, dtype, start, step);
    return column ? reshape(line, Shape{count, 1}) : line;
  };
  const auto length = static_cast<double>(in), outputs = static_cast<double>(out);
  if (attributes.integer("mode") == 2) {  // bilinear: 1 at the place that an output stands for, 0 one further
    const bool aligned = attributes.integer("aligned_corners") != 0;
    const double ratio = fixed != 0 ? fixed : length / outputs;
    const double step = aligned ? (out == 1 ? 0 : (length - 1) / (outputs - 1)) : ratio;
    const Tensor place = numbers(out, DType::f32, aligned ? 0 : ratio / 2 - 0.5, step, true);
    const Tensor inside = minimum(maximum(place, scalar(like.device(), 0)), scalar(like.device(), length - 1));
    const Tensor distance = abs(inside - numbers(in, DType::f32, 0, 1, false));
    return maximum(scalar(like.device(), 1) - distance, scalar(like.device(), 0));
  }
  const Tensor divisor = scalar(like.device(), outputs, DType::i32), index = numbers(in, DType::i32, 0, 1, false);
  if (fixed != 0) {
    const Tensor place = floor(numbers(out, DType::f32, 0, 1, true) * scalar(like.device(), fixed));
    const Tensor nearest = cast(minimum(place, scalar(like.device(), length - 1)), DType::i32);
    return cast(equal(nearest, index), DType::f32);
  }
  const Tensor first = floor_divide(numbers(out, DType::i32, 0, length, true), divisor);
  const Tensor last = attributes.integer("mode") == 1  // nearest: one input
                          ? first
                          : floor_divide(numbers(out, DType::i32, length + outputs - 1, length, true), divisor) -
                                scalar(like.device(), 1, DType::i32);
  const Tensor count = cast(last - first, DType::f32) + scalar(like.device(), 1);
  return cast(logical_and(less_equal(first, index), less_equal(index, last)), DType::f32) / count;
}

// x [N, C, H, W]: rows by one matrix, columns by another.
std::vector<Tensor> resized(const Args& a) {
  const Shape& s = a[0].shape();
  const int64_t height = a.attributes.integer("out_h"), width = a.attributes.integer("out_w");
  const Tensor rows = resize_matrix(a[0], s[2], height, a.attributes.real("step_h"), a.attributes);
  const Tensor columns = permute(resize_matrix(a[0], s[3], width, a.attributes.real("step_w"), a.attributes), {1, 0});
  const Tensor x = reshape(cast(a[0], DType::f32), Shape{s[0] * s[1], s[2], s[3]});
  return {cast(reshape(matmul(matmul(rows, x), columns), Shape{s[0], s[1], height, width}), a[0].dtype())};
}

std::vector<TensorSpec> resized_spec(const Args& a) {
  const Shape& s = a[0].shape();
  return result(Shape{s[0], s[1], a.attributes.integer("out_h"), a.attributes.integer("out_w")}, a[0].dtype());
}

}  // namespace

const Op kAdaptiveAvgPool2d = {.name = "adaptive_avg_pool2d", .infer = resized_spec, .compose = resized};
const Op kUpsample2d = {.name = "upsample2d", .infer = resized_spec, .compose = resized};

namespace {

struct Resize {
  int64_t lengths[2];
  double steps[2] = {0, 0};  // inputs from one output to the next; 0: by the lengths
  bool aligned = false;
};

Tensor resize(const char* name, const Op& op, const Tensor& x, Mode mode, const Resize& r) {
  require_dtype(name, x, kReal);
  require_rank(name, x, 4);
  if (r.lengths[0] < 1 || r.lengths[1] < 1 || x.shape()[2] < 1 || x.shape()[3] < 1) {
    throw bad_input("[{}] x {} cannot have {} rows of {}", name, x.shape().to_string(), r.lengths[0], r.lengths[1]);
  }
  return record(op, {x},
                {{"out_h", r.lengths[0]},
                 {"out_w", r.lengths[1]},
                 {"mode", int64_t{mode}},
                 {"aligned_corners", int64_t{r.aligned}},
                 {"step_h", r.steps[0]},
                 {"step_w", r.steps[1]}});
}

// The input whose center is nearest to each output's, along one axis.
Tensor nearest_exact(const Tensor& x, int axis, int64_t length, double fixed) {
  const int64_t in = x.shape()[axis];
  const auto step = static_cast<float>(fixed != 0 ? fixed : static_cast<double>(in) / static_cast<double>(length));
  std::vector<int32_t> index(static_cast<size_t>(length));
  for (int64_t o = 0; o < length; ++o) {
    const float place = std::floor((static_cast<float>(o) + 0.5F) * step);
    index[static_cast<size_t>(o)] = static_cast<int32_t>(std::min(static_cast<int64_t>(place), in - 1));
  }
  return take(x, x.device()->upload(DType::i32, Shape{length}, index.data()), axis);
}

// The lengths and steps that the options ask for.
Resize resize_of(const Tensor& x, const InterpolateOptions& o) {
  Resize r{.lengths = {0, 0}, .aligned = o.align_corners};
  if (o.size.empty() == o.scale_factor.empty()) throw bad_input("[interpolate] either size or scale_factor is wanted");
  if (!o.size.empty() && o.recompute_scale_factor)
    throw bad_input("[interpolate] recompute_scale_factor wants a scale_factor, not a size");
  if (std::max(o.size.size(), o.scale_factor.size()) > 2)
    throw bad_input("[interpolate] one number or two are wanted for x {}", x.shape().to_string());
  for (size_t i = 0; i < 2; ++i) {
    if (!o.size.empty()) {
      r.lengths[i] = o.size[std::min(i, o.size.size() - 1)];
      continue;
    }
    const double factor = o.scale_factor[std::min(i, o.scale_factor.size() - 1)];
    const auto in = static_cast<double>(x.shape()[static_cast<int>(i) + 2]);
    const double exact = in * factor;
    if (!(factor > 0) || !(exact < 2147483648.0)) throw bad_input("[interpolate] a scale_factor of {}", factor);
    r.lengths[i] = static_cast<int64_t>(std::floor(exact));
    // PyTorch copies an axis of the same length, and takes the nearest element by the lengths where one is double.
    const double out = std::floor(exact);
    const bool copied = out == in && o.mode != Interpolation::kNearestExact;
    const bool doubled = out == 2 * in && o.mode == Interpolation::kNearest;
    const bool by_lengths = o.recompute_scale_factor || exact == out || copied || doubled;
    if (!by_lengths) r.steps[i] = static_cast<float>(1 / factor);
  }
  return r;
}

}  // namespace

Tensor adaptive_avg_pool2d(const Tensor& x, int64_t height, int64_t width) {
  return resize("adaptive_avg_pool2d", kAdaptiveAvgPool2d, x, kMean, {.lengths = {height, width}});
}
Tensor upsample_nearest2d(const Tensor& x, int64_t height, int64_t width) {
  return resize("upsample_nearest2d", kUpsample2d, x, kNearest, {.lengths = {height, width}});
}
Tensor upsample_bilinear2d(const Tensor& x, int64_t height, int64_t width, bool align_corners) {
  return resize("upsample_bilinear2d", kUpsample2d, x, kBilinear,
                {.lengths = {height, width}, .aligned = align_corners});
}

Tensor interpolate(const Tensor& x, const InterpolateOptions& o) {
  require_rank("interpolate", x, 4);
  if (o.align_corners && o.mode != Interpolation::kBilinear)
    throw bad_input("[interpolate] align_corners is for mode 'bilinear'");
  const Resize r = resize_of(x, o);
  switch (o.mode) {
    case Interpolation::kArea:
      return resize("interpolate", kAdaptiveAvgPool2d, x, kMean, {.lengths = {r.lengths[0], r.lengths[1]}});
    case Interpolation::kNearest:
      return resize("interpolate", kUpsample2d, x, kNearest, r);
    case Interpolation::kBilinear:
      return resize("interpolate", kUpsample2d, x, kBilinear, r);
    case Interpolation::kNearestExact:
      break;
  }
  require_dtype("interpolate", x, kReal);
  if (r.lengths[0] < 1 || r.lengths[1] < 1 || x.shape()[2] < 1 || x.shape()[3] < 1)
    throw bad_input("[interpolate] x {} cannot have {} rows of {}", x.shape().to_string(), r.lengths[0], r.lengths[1]);
  return nearest_exact(nearest_exact(x, 2, r.lengths[0], r.steps[0]), 3, r.lengths[1], r.steps[1]);
}

}  // namespace gabbro
