#include "gabbro/nn/norm.h"

#include "gabbro/nn/init.h"
#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/ops/grad.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro::nn {
namespace {

Shape checked_shape(const char* op, const std::vector<int64_t>& lengths) {
  if (lengths.empty()) throw bad_input("[{}] no axes to normalize", op);
  return Shape(lengths);
}

// For a layer whose weight may be of these axes.
Shape fitting_shape(const char* op, const std::vector<int64_t>& lengths, const Tensor& weight) {
  const Shape shape = checked_shape(op, lengths);
  if (weight.defined() && !(weight.shape() == shape))
    throw bad_input("[{}] a normalized shape of {} for a weight of {}", op, shape.to_string(),
                    weight.shape().to_string());
  return shape;
}

// x [..., shape...] as [..., elements of shape].
Tensor with_flat_end(const char* op, const Tensor& x, const Shape& shape) {
  require_dtype(op, x, kReal);
  const int before = x.shape().rank() - shape.rank();
  bool fits = before >= 0;
  for (int axis = 0; fits && axis < shape.rank(); ++axis) fits = x.shape()[before + axis] == shape[axis];
  if (!fits) throw bad_input("[{}] {} does not end with {}", op, x.shape().to_string(), shape.to_string());
  std::vector<int64_t> lengths(x.shape().lengths().begin(), x.shape().lengths().begin() + before);
  lengths.push_back(shape.elements());
  return reshape(x, Shape(lengths));
}

}  // namespace

BatchNorm::BatchNorm(const Factory& make, const BatchNormOptions& o, int least_rank, int most_rank)
    : options_(o), least_rank_(least_rank), most_rank_(most_rank) {
  if (o.num_features < 1) throw bad_input("[batch_norm] {} channels", o.num_features);
  const Shape channels{o.num_features};
  if (o.affine) {
    add_parameter(make, "weight", weight, init::ones(make, channels));
    add_parameter(make, "bias", bias, init::zeros(make, channels));
  }
  if (!o.track_running_stats) return;
  add_buffer(make, "running_mean", running_mean, init::zeros(make, channels));
  add_buffer(make, "running_var", running_var, init::ones(make, channels));
  const int64_t none = 0;
  add_buffer("num_batches_tracked", num_batches_tracked, make.device->upload(DType::i64, Shape{}, &none));
}

Tensor BatchNorm::from_batch(const Tensor& x) {
  const bool tracked = is_training() && options_.track_running_stats && running_mean.defined();
  const Tensor none = full(x.device(), Shape{options_.num_features}, 0, DType::f32);
  const Tensor old_mean = tracked ? cast(running_mean, DType::f32) : none;
  const Tensor old_var = tracked ? cast(running_var, DType::f32) : none;
  // If the mean is over all batches, the op moves toward the moments themselves, and their share is computed here.
  const TrainedBatchNorm now = batch_norm_training(x,
                                                   {.mean = options_.momentum ? old_mean : none,
                                                    .variance = options_.momentum ? old_var : none,
                                                    .weight = weight,
                                                    .bias = bias,
                                                    .epsilon = static_cast<float>(options_.eps)},
                                                   static_cast<float>(options_.momentum.value_or(1)));
  if (!tracked) return now.y;
  const NoGrad no_grad;
  num_batches_tracked = num_batches_tracked + 1;
  const auto next = [&](const Tensor& old, const Tensor& computed) {
    const Tensor value = detach(computed);
    return options_.momentum ? value : old + (value - old) / cast(num_batches_tracked, DType::f32);
  };
  running_mean = cast(next(old_mean, now.running_mean), running_mean.dtype());
  running_var = cast(next(old_var, now.running_variance), running_var.dtype());
  return now.y;
}

Tensor BatchNorm::forward(const Tensor& x) {
  require_defined("batch_norm", x);
  const int rank = x.shape().rank();
  if (rank < least_rank_ || rank > most_rank_ || x.shape()[1] != options_.num_features) {
    throw bad_input(
        "[batch_norm] x {} where {} channels in {} axes are wanted", x.shape().to_string(), options_.num_features,
        least_rank_ == most_rank_ ? fmt::format("{}", least_rank_) : fmt::format("{} or {}", least_rank_, most_rank_));
  }
  if (is_training() || !running_mean.defined()) return from_batch(x);
  return batch_norm(x, {.mean = running_mean,
                        .variance = running_var,
                        .weight = weight,
                        .bias = bias,
                        .epsilon = static_cast<float>(options_.eps)});
}

LayerNorm::LayerNorm(const Factory& make, const LayerNormOptions& o)
    : options_(o), shape_(checked_shape("layer_norm", o.normalized_shape)) {
  if (!o.elementwise_affine) return;
  add_parameter(make, "weight", weight, init::ones(make, shape_));
  if (o.bias) add_parameter(make, "bias", bias, init::zeros(make, shape_));
}

void LayerNorm::set_options(const LayerNormOptions& o) {
  shape_ = fitting_shape("layer_norm", o.normalized_shape, weight);
  options_.normalized_shape = o.normalized_shape;
  options_.eps = o.eps;
}

Tensor LayerNorm::forward(const Tensor& x) {
  const auto flat = [](const Tensor& parameter) {
    return parameter.defined() ? reshape(parameter, Shape{parameter.shape().elements()}) : Tensor();
  };
  const Tensor rows = with_flat_end("layer_norm", x, shape_);
  return reshape(layer_norm(rows, flat(weight), flat(bias), static_cast<float>(options_.eps)), x.shape());
}

RMSNorm::RMSNorm(const Factory& make, const RMSNormOptions& o)
    : options_(o), shape_(checked_shape("rms_norm", o.normalized_shape)) {
  if (o.elementwise_affine) add_parameter(make, "weight", weight, init::ones(make, shape_));
}

void RMSNorm::set_options(const RMSNormOptions& o) {
  shape_ = fitting_shape("rms_norm", o.normalized_shape, weight);
  options_.normalized_shape = o.normalized_shape;
  options_.eps = o.eps;
}

Tensor RMSNorm::forward(const Tensor& x) {
  const bool half = x.dtype() == DType::f16 || x.dtype() == DType::bf16;
  const Tensor rows = cast(with_flat_end("rms_norm", x, shape_), half ? x.dtype() : DType::f32);
  const double unit = x.dtype() == DType::f16 ? 0x1p-10 : x.dtype() == DType::bf16 ? 0x1p-7 : 0x1p-23;
  const Shape flat{shape_.elements()};
  const Tensor factor = weight.defined()
                            ? reshape(weight.dtype() == rows.dtype() ? weight : cast(weight, DType::f32), flat)
                            : full(x.device(), flat, 1, DType::f32);
  return cast(reshape(rms_norm(rows, factor, static_cast<float>(options_.eps.value_or(unit))), x.shape()), x.dtype());
}

GroupNorm::GroupNorm(const Factory& make, const GroupNormOptions& o) : options_(o) {
  if (o.num_groups < 1 || o.num_channels < 1 || o.num_channels % o.num_groups != 0)
    throw bad_input("[group_norm] {} channels in {} groups", o.num_channels, o.num_groups);
  if (!o.affine) return;
  add_parameter(make, "weight", weight, init::ones(make, Shape{o.num_channels}));
  add_parameter(make, "bias", bias, init::zeros(make, Shape{o.num_channels}));
}

Tensor GroupNorm::forward(const Tensor& x) {
  return group_norm(x, options_.num_groups, weight, bias, static_cast<float>(options_.eps));
}

}  // namespace gabbro::nn
