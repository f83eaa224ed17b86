#include "gabbro/train/loss_scaler.h"

#include <algorithm>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/ops/grad.h"
#include "src/ops/ops.h"

namespace gabbro::train {

LossScaler::LossScaler(const std::shared_ptr<Device>& device, const LossScalerOptions& options) : options_(options) {
  if (!(options.scale > 0) || !(options.growth_factor > 1) || !(options.backoff_factor > 0) ||
      !(options.backoff_factor < 1) || options.growth_interval < 1) {
    throw bad_input("[loss_scaler] a scale of {} that grows by {} after {} steps, and shrinks by {}", options.scale,
                    options.growth_factor, options.growth_interval, options.backoff_factor);
  }
  const auto number = [&](double value) {
    const auto narrow = static_cast<float>(value);
    return device->upload(DType::f32, Shape{}, &narrow);
  };
  scale_ = number(options.scale);
  good_steps_ = number(0);
  growth_ = number(options.growth_factor);
  backoff_ = number(options.backoff_factor);
  interval_ = number(static_cast<double>(options.growth_interval));
  one_ = number(1);
  zero_ = number(0);
}

void LossScaler::restore(const Tensor& scale, const Tensor& good_steps) {
  for (const Tensor& state : {scale, good_steps}) {
    if (state.dtype() != DType::f32 || !(state.shape() == Shape{}) || state.device() != scale_.device())
      throw bad_input("[loss_scaler] a state of {} {} on {}", dtype_name(state.dtype()), state.shape().to_string(),
                      state.device()->facts().id);
  }
  scale_ = scale;
  good_steps_ = good_steps;
}

Tensor LossScaler::scaled(const Tensor& loss) const { return cast(loss, DType::f32) * scale_; }

void LossScaler::unscale(const Optimizer& optimizer) {
  if (std::ranges::find(unscaled_, &optimizer) != unscaled_.end())
    throw bad_input("[loss_scaler] the gradients were unscaled already; update() ends a step");
  unscaled_.push_back(&optimizer);
  const NoGrad no_grad;
  const TrainingNodes training;
  const Tensor factor = one_ / scale_;
  std::vector<Tensor> overflows;
  if (overflow_.defined()) overflows.push_back(overflow_);
  for (size_t group = 0; group < optimizer.groups(); ++group) {
    for (const nn::Slot& slot : optimizer.parameters(group)) {
      const Tensor gradient = gradient_of(*slot.tensor);
      if (!gradient.defined()) continue;
      const Tensor unscaled = cast(gradient, DType::f32) * factor;
      overflows.push_back(any(logical_not(isfinite(unscaled)), kAllAxes));
      set_gradient(*slot.tensor, cast(unscaled, gradient.dtype()));
    }
  }
  if (!overflows.empty()) overflow_ = any(stack(overflows), kAllAxes);
}

void LossScaler::step(Optimizer& optimizer) {
  if (std::ranges::find(unscaled_, &optimizer) == unscaled_.end()) unscale(optimizer);
  optimizer.step({.skip = overflow_});
}

void LossScaler::update() {
  if (!overflow_.defined()) throw bad_input("[loss_scaler] no step was made since the last update");
  const NoGrad no_grad;
  const Tensor good = good_steps_ + one_;
  const Tensor grows = greater_equal(good, interval_);
  scale_ = where(overflow_, scale_ * backoff_, where(grows, scale_ * growth_, scale_));
  good_steps_ = where(logical_or(overflow_, grows), zero_, good);
  overflow_ = Tensor();
  unscaled_.clear();
}

}  // namespace gabbro::train
