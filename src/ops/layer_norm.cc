// LayerNorm (Ba et al. 2016), GroupNorm (Wu & He 2018), BatchNorm (Ioffe & Szegedy 2015), and the moments of channels.
#include "src/ops/autocast.h"
#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// Normalization over the last axis: y = (x - mean) · scale, with scale = 1 / sqrt(variance + epsilon).
struct Rows {
  Tensor scale, y;
};

Rows normalized_rows(const Tensor& x, double epsilon) {
  const Tensor distance = x - mean(x, -1, kKeepDims);
  const Tensor scale = rsqrt(mean(distance * distance, -1, kKeepDims) + scalar(x.device(), epsilon));
  return {.scale = scale, .y = distance * scale};
}

// Gradient of normalized rows (mean 0, variance 1): dx from dy.
Tensor through_rows(const Rows& rows, const Tensor& dy) {
  return rows.scale * (dy - mean(dy, -1, kKeepDims) - rows.y * mean(dy * rows.y, -1, kKeepDims));
}

// The gradients of x, where normalized rows of `rows` elements make it, and of those parameters that there are, which
// broadcast to x in `shape`.
Gradients of_norm(const GradientArgs& a, const Shape& rows, const Shape& shape) {
  const bool has_weight = a.attributes.integer("weight") != 0, has_bias = a.attributes.integer("bias") != 0;
  const Tensor x = in_f32(a[0]), dy = in_f32(a.gradients[0]);
  const Rows normal = normalized_rows(reshape(x, rows), a.attributes.real("epsilon"));
  const Tensor d = has_weight ? dy * reshape(in_f32(a[1]), shape) : dy;
  Gradients gradients{cast(reshape(through_rows(normal, reshape(d, rows)), x.shape()), a[0].dtype())};
  const auto to_parameter = [&](const Tensor& y) {
    return cast(reshape(sum_to(y, shape), Shape{shape.elements()}), a[1].dtype());
  };
  if (has_weight) gradients.push_back(to_parameter(dy * reshape(normal.y, x.shape())));
  if (has_bias) gradients.push_back(to_parameter(dy));
  return gradients;
}

// y · weight + bias; the attributes say which of the two are there, from input `at` on, in `shape`.
Tensor with_parameters(Tensor y, const Args& a, size_t at, const Shape& shape) {
  if (a.attributes.integer("weight") != 0) y = y * reshape(in_f32(a[at++]), shape);
  if (a.attributes.integer("bias") != 0) y = y + reshape(in_f32(a[at]), shape);
  return y;
}

// [C] as it broadcasts to x [N, C, ...].
Shape channel_shape(const Tensor& x) {
  std::vector<int64_t> lengths(static_cast<size_t>(x.shape().rank() - 1), 1);
  lengths[0] = x.shape()[1];
  return Shape(lengths);
}

void require_parameter(const char* op, const Tensor& x, const Tensor& parameter, const Shape& shape) {
  require_dtype(op, parameter, kReal);
  if (!(parameter.shape() == shape)) {
    throw bad_input("[{}] a parameter of shape {} where {} is needed for x {}", op, parameter.shape().to_string(),
                    shape.to_string(), x.shape().to_string());
  }
  if (parameter.dtype() != DType::f32 && parameter.dtype() != x.dtype()) {
    throw bad_input("[{}] a parameter is {}, and x {} {}", op, dtype_name(parameter.dtype()), dtype_name(x.dtype()),
                    x.shape().to_string());
  }
}

// Appends the weight and bias that are given, each of `shape`, for x: of one dtype, that of x or f32.
void add_parameters(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& shape,
                    std::vector<Tensor>& inputs) {
  bool wide = false;
  for (const Tensor* parameter : {&weight, &bias}) {
    if (!parameter->defined()) continue;
    require_parameter(op, x, *parameter, shape);
    wide = wide || parameter->dtype() == DType::f32;
  }
  for (const Tensor* parameter : {&weight, &bias}) {
    if (!parameter->defined()) continue;
    inputs.push_back(cast(reshape(*parameter, Shape{shape.elements()}), wide ? DType::f32 : x.dtype()));
  }
}
Attributes parameters(const Tensor& weight, const Tensor& bias, float epsilon) {
  return {{"weight", int64_t{weight.defined()}},
          {"bias", int64_t{bias.defined()}},
          {"epsilon", static_cast<double>(epsilon)}};
}

void require_channels(const char* op, const Tensor& x) {
  require_dtype(op, x, kReal);
  if (x.shape().rank() < 2) throw bad_input("[{}] wants x [N, C, ...], not shape {}", op, x.shape().to_string());
}

// The groups of x [N, C, ...], one a row.
Shape grouped_rows(const Tensor& x, const Attributes& attributes) {
  const int64_t rows = x.shape()[0] * attributes.integer("groups");
  return Shape{rows, rows == 0 ? 0 : x.shape().elements() / rows};
}

// Elements per channel of x [N, C, ...].
int64_t values_per_channel(const Tensor& x) {
  int64_t count = x.shape()[0];
  for (int axis = 2; axis < x.shape().rank(); ++axis) count *= x.shape()[axis];
  return count;
}

// [N, C, ...] as [C, values of a channel].
Tensor channel_rows(const Tensor& x) {
  const int64_t images = x.shape()[0], channels = x.shape()[1], count = values_per_channel(x);
  const Tensor flat = reshape(x, Shape{images, channels, images == 0 ? 0 : count / images});
  return reshape(permute(flat, {1, 0, 2}), Shape{channels, count});
}

// Two numbers for each channel of the first input.
std::vector<TensorSpec> two_of_channels(const Args& a) {
  const TensorSpec spec{.shape = Shape{a[0].shape()[1]}, .dtype = DType::f32};
  return {spec, spec};
}

}  // namespace

// Over the last axis.
const Op kLayerNorm = {
    .name = "layer_norm",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];
          const Tensor y = normalized_rows(in_f32(x), a.attributes.real("epsilon")).y;
          const Shape shape{x.shape()[x.shape().rank() - 1]};
          return std::vector{cast(with_parameters(y, a, 1, shape), x.dtype())};
        },
    .gradient =
        [](const GradientArgs& a) {
          const Shape& shape = a[0].shape();
          return of_norm(a, shape, Shape{shape[shape.rank() - 1]});
        },
};

// x [N, C, ...], over the C / groups channels of a group and what follows.
const Op kGroupNorm = {
    .name = "group_norm",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];
          const Tensor flat = reshape(in_f32(x), grouped_rows(x, a.attributes));
          const Tensor y = reshape(normalized_rows(flat, a.attributes.real("epsilon")).y, x.shape());
          return std::vector{cast(with_parameters(y, a, 1, channel_shape(x)), x.dtype())};
        },
    .gradient = [](const GradientArgs& a) { return of_norm(a, grouped_rows(a[0], a.attributes), channel_shape(a[0])); },
};

// x [N, C, ...], mean [C], variance [C].
const Op kBatchNorm = {
    .name = "batch_norm",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];
          const Shape shape = channel_shape(x);
          const Tensor factor = rsqrt(a[2] + scalar(x.device(), a.attributes.real("epsilon")));
          const Tensor y = (in_f32(x) - reshape(a[1], shape)) * reshape(factor, shape);
          return std::vector{cast(with_parameters(y, a, 3, shape), x.dtype())};
        },
    // All of it but dx from two sums of each channel.
    .gradient = [](const GradientArgs& a) -> Gradients {
      const bool has_weight = a.attributes.integer("weight") != 0, has_bias = a.attributes.integer("bias") != 0;
      const Tensor &x = a[0], &dy = a.gradients[0];
      const std::vector<Tensor> sums = record_all(kBatchNormSums, {x, a[1], dy});
      const Tensor factor = rsqrt(a[2] + scalar(x.device(), a.attributes.real("epsilon")));
      // The weight comes last: its product with the factor may overflow.
      const Shape shape = channel_shape(x);
      const auto weighted = [&](const Tensor& y, const Shape& as) {
        return has_weight ? y * reshape(in_f32(a[3]), as) : y;
      };
      const Shape channels = factor.shape();
      Gradients gradients{cast(weighted(in_f32(dy) * reshape(factor, shape), shape), x.dtype()),
                          neg(weighted(sums[0] * factor, channels)),
                          weighted(sums[1] * factor * factor * factor * scalar(x.device(), -0.5), channels)};
      if (has_weight) gradients.push_back(cast(sums[1] * factor, a[3].dtype()));
      if (has_bias) gradients.push_back(cast(sums[0], a[a.size() - 1].dtype()));
      return gradients;
    },
};

// x [N, C, ...] to the mean [C] and the mean squared distance from it [C], both f32.
const Op kMoments = {
    .name = "moments",
    .infer = two_of_channels,
    .compose =
        [](const Args& a) {
          const Tensor x = channel_rows(in_f32(a[0]));  // [C, N·S]
          const Tensor middle = mean(x, -1, kKeepDims), distance = x - middle;
          const Shape channels{x.shape()[0]};
          return std::vector{reshape(middle, channels), reshape(mean(distance * distance, -1, kKeepDims), channels)};
        },
    // (dmean + 2 · dvariance · (x - mean)) / (N · S).
    .gradient = [](const GradientArgs& a) -> Gradients {
      const Shape column = channel_shape(a[0]);
      const auto count = static_cast<double>(values_per_channel(a[0]));
      const auto share = [&](const Tensor& dy, double factor) {
        return reshape(dy * scalar(dy.device(), factor / count), column);
      };
      const Tensor &d_mean = a.gradients[0], &d_variance = a.gradients[1];
      Tensor dx;
      if (d_variance.defined()) dx = (in_f32(a[0]) - reshape(a.outputs[0], column)) * share(d_variance, 2);
      if (d_mean.defined()) dx = dx.defined() ? dx + share(d_mean, 1) : broadcast_to(share(d_mean, 1), a[0].shape());
      return {cast(dx, a[0].dtype())};
    },
};

// x [N, C, ...], mean f32 [C], dy like x to the sums of dy [C] and of dy · (x - mean) [C], both f32: what a batch norm
// hands to its parameters, its mean and its variance comes from them.
const Op kBatchNormSums = {
    .name = "batch_norm_sums",
    .infer = two_of_channels,
    .compose =
        [](const Args& a) {
          const Tensor x = channel_rows(in_f32(a[0])), dy = channel_rows(in_f32(a[2]));  // [C, N·S]
          const Tensor distance = x - reshape(a[1], Shape{x.shape()[0], 1});
          return std::vector{sum(dy, -1), sum(dy * distance, -1)};
        },
};

Tensor layer_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, float epsilon) {
  const Tensor x = for_sum(input);
  require_dtype("layer_norm", x, kReal);
  const int rank = x.shape().rank();
  const int axes = weight.defined() ? weight.shape().rank() : bias.defined() ? bias.shape().rank() : 1;
  if (axes < 1 || axes > rank) {
    throw bad_input("[layer_norm] {} axes cannot be normalized in shape {}", axes, x.shape().to_string());
  }
  const Shape last(x.shape().lengths().subspan(static_cast<size_t>(rank - axes)));
  std::vector<int64_t> lengths(x.shape().lengths().begin(), x.shape().lengths().end() - axes);
  lengths.push_back(last.elements());
  std::vector<Tensor> inputs{axes == 1 ? x : reshape(x, Shape(lengths))};
  add_parameters("layer_norm", x, weight, bias, last, inputs);
  const Tensor y = record(kLayerNorm, inputs, parameters(weight, bias, epsilon));
  return axes == 1 ? y : reshape(y, x.shape());
}

Tensor group_norm(const Tensor& input, int64_t groups, const Tensor& weight, const Tensor& bias, float epsilon) {
  const Tensor x = for_sum(input);
  require_channels("group_norm", x);
  const Shape channels{x.shape()[1]};
  if (groups < 1 || channels[0] % groups != 0) {
    throw bad_input("[group_norm] {} groups do not divide the channels of shape {}", groups, x.shape().to_string());
  }
  std::vector<Tensor> inputs{x};
  add_parameters("group_norm", x, weight, bias, channels, inputs);
  Attributes attributes = parameters(weight, bias, epsilon);
  attributes.set("groups", groups);
  return record(kGroupNorm, inputs, attributes);
}

Tensor batch_norm(const Tensor& x, const BatchNorm& norm) {
  require_channels("batch_norm", x);
  const Shape channels{x.shape()[1]};
  require_defined("batch_norm", norm.mean);
  require_defined("batch_norm", norm.variance);
  std::vector<Tensor> inputs{x};
  for (const Tensor* statistic : {&norm.mean, &norm.variance}) {
    require_parameter("batch_norm", x, *statistic, channels);
    inputs.push_back(in_f32(*statistic));
  }
  add_parameters("batch_norm", x, norm.weight, norm.bias, channels, inputs);
  return record(kBatchNorm, inputs, parameters(norm.weight, norm.bias, norm.epsilon));
}

TrainedBatchNorm batch_norm_training(const Tensor& x, const BatchNorm& running, float momentum) {
  require_channels("batch_norm", x);
  const int64_t count = values_per_channel(x);
  if (count < 2) {
    throw bad_input("[batch_norm] one value per channel has no variance to train with: x {}", x.shape().to_string());
  }
  const std::vector<Tensor> moments = record_all(kMoments, {x});
  BatchNorm now = running;
  now.mean = moments[0];
  now.variance = moments[1];
  const auto moved = [&](const Tensor& old, const Tensor& target) {
    require_dtype("batch_norm", old, {DType::f32});
    require_parameter("batch_norm", x, old, Shape{x.shape()[1]});
    return old + (target - old) * scalar(x.device(), momentum);
  };
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  return {.y = batch_norm(x, now),
          .running_mean = moved(running.mean, moments[0]),
          .running_variance = moved(running.variance, moments[1] * scalar(x.device(), unbiased))};
}

}  // namespace gabbro
