// LayerNorm (Ba et al. 2016), GroupNorm (Wu & He 2018), BatchNorm (Ioffe & Szegedy 2015), and the moments of channels.
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

constexpr std::initializer_list<DType> kReal = {DType::f32, DType::f16, DType::bf16};

Tensor in_f32(const Tensor& x) { return cast(x, DType::f32); }

// (x - mean) / sqrt(variance + epsilon) with the moments of the last axis.
Tensor normalised(const Tensor& x, double epsilon) {
  const Tensor distance = x - mean(x);
  return distance * rsqrt(mean(distance * distance) + scalar(x.device(), epsilon));
}

// y · weight + bias, with those of the two that the attributes say there are, from input `at` on, in `shape`.
Tensor with_parameters(Tensor y, const Args& a, size_t at, const Shape& shape) {
  if (a.attributes.integer("weight") != 0) y = y * reshape(a[at++], shape);
  if (a.attributes.integer("bias") != 0) y = y + reshape(a[at], shape);
  return y;
}

// [C] as it broadcasts to x [N, C, ...].
Shape channel_shape(const Tensor& x) {
  std::vector<int64_t> lengths(static_cast<size_t>(x.shape().rank() - 1), 1);
  lengths[0] = x.shape()[1];
  return Shape(lengths);
}

// A parameter of `channels` elements in f32, if it is there.
void add_parameter(const char* op, const Tensor& x, const Tensor& parameter, const Shape& shape,
                   std::vector<Tensor>& inputs) {
  if (!parameter.defined()) return;
  require_dtype(op, parameter, kReal);
  if (!(parameter.shape() == shape)) {
    throw bad_input("[{}] a parameter of shape {} where {} is needed for x {}", op, parameter.shape().to_string(),
                    shape.to_string(), x.shape().to_string());
  }
  if (parameter.dtype() != DType::f32 && parameter.dtype() != x.dtype()) {
    throw bad_input("[{}] a parameter is {}, and x {} {}", op, dtype_name(parameter.dtype()), dtype_name(x.dtype()),
                    x.shape().to_string());
  }
  inputs.push_back(in_f32(reshape(parameter, Shape{shape.elements()})));
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

std::vector<TensorSpec> like_first(const Args& a) { return result(a[0].shape(), a[0].dtype()); }

// [N, C, ...] as [N, C, S].
Tensor flat_channels(const Tensor& x) {
  const int64_t images = x.shape()[0], channels = x.shape()[1];
  int64_t inner = 1;
  for (int axis = 2; axis < x.shape().rank(); ++axis) inner *= x.shape()[axis];
  return reshape(x, Shape{images, channels, inner});
}

}  // namespace

// Over the last axis.
const Op kLayerNorm = {
    .name = "layer_norm",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];
          const Tensor y = normalised(in_f32(x), a.attributes.real("epsilon"));
          const Shape shape{x.shape()[x.shape().rank() - 1]};
          return std::vector{cast(with_parameters(y, a, 1, shape), x.dtype())};
        },
};

// x [N, C, ...], over the C / groups channels of a group and what follows.
const Op kGroupNorm = {
    .name = "group_norm",
    .infer = like_first,
    .compose =
        [](const Args& a) {
          const Tensor& x = a[0];
          const int64_t rows = x.shape()[0] * a.attributes.integer("groups");
          const Tensor flat = reshape(in_f32(x), Shape{rows, rows == 0 ? 0 : x.shape().elements() / rows});
          const Tensor y = reshape(normalised(flat, a.attributes.real("epsilon")), x.shape());
          return std::vector{cast(with_parameters(y, a, 1, channel_shape(x)), x.dtype())};
        },
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
};

// x [N, C, S] to the mean [C] and the mean squared distance from it [C], both f32.
const Op kMoments = {
    .name = "moments",
    .infer =
        [](const Args& a) {
          const TensorSpec spec{.shape = Shape{a[0].shape()[1]}, .dtype = DType::f32};
          return std::vector{spec, spec};
        },
    .compose =
        [](const Args& a) {
          const Shape& shape = a[0].shape();
          const Tensor x = reshape(permute(in_f32(a[0]), {1, 0, 2}), Shape{shape[1], shape[0] * shape[2]});  // [C, N·S]
          const Tensor middle = mean(x), distance = x - middle;
          const Shape channels{shape[1]};
          return std::vector{reshape(middle, channels), reshape(mean(distance * distance), channels)};
        },
};

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon) {
  require_dtype("layer_norm", x, kReal);
  const int rank = x.shape().rank();
  const int axes = weight.defined() ? weight.shape().rank() : bias.defined() ? bias.shape().rank() : 1;
  if (axes < 1 || axes > rank) {
    throw bad_input("[layer_norm] {} axes cannot be normalised in shape {}", axes, x.shape().to_string());
  }
  const Shape last(x.shape().lengths().subspan(static_cast<size_t>(rank - axes)));
  std::vector<int64_t> lengths(x.shape().lengths().begin(), x.shape().lengths().end() - axes);
  lengths.push_back(last.elements());
  std::vector<Tensor> inputs{reshape(x, Shape(lengths))};
  add_parameter("layer_norm", x, weight, last, inputs);
  add_parameter("layer_norm", x, bias, last, inputs);
  return reshape(record(kLayerNorm, inputs, parameters(weight, bias, epsilon)), x.shape());
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, float epsilon) {
  require_channels("group_norm", x);
  const Shape channels{x.shape()[1]};
  if (groups < 1 || channels[0] % groups != 0) {
    throw bad_input("[group_norm] {} groups do not divide the channels of shape {}", groups, x.shape().to_string());
  }
  std::vector<Tensor> inputs{x};
  add_parameter("group_norm", x, weight, channels, inputs);
  add_parameter("group_norm", x, bias, channels, inputs);
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
  for (const Tensor* parameter : {&norm.mean, &norm.variance, &norm.weight, &norm.bias})
    add_parameter("batch_norm", x, *parameter, channels, inputs);
  return record(kBatchNorm, inputs, parameters(norm.weight, norm.bias, norm.epsilon));
}

TrainedBatchNorm batch_norm_training(const Tensor& x, const BatchNorm& running, float momentum) {
  require_channels("batch_norm", x);
  const Tensor flat = flat_channels(x);  // [N, C, S]
  const int64_t count = flat.shape()[0] * flat.shape()[2];
  if (count < 2) {
    throw bad_input("[batch_norm] one value per channel has no variance to train with: x {}", x.shape().to_string());
  }
  const std::vector<Tensor> moments = record_all(kMoments, {flat});
  BatchNorm now = running;
  now.mean = moments[0];
  now.variance = moments[1];
  const auto moved = [&](const Tensor& old, const Tensor& target) {
    require_dtype("batch_norm", old, {DType::f32});
    return old + (target - old) * scalar(x.device(), momentum);
  };
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  return {.y = batch_norm(x, now),
          .running_mean = moved(running.mean, moments[0]),
          .running_variance = moved(running.variance, moments[1] * scalar(x.device(), unbiased))};
}

}  // namespace gabbro
