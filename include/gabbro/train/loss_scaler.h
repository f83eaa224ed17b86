// Scaling of the loss for training in f16, whose small gradients would else become 0 (Micikevicius et al. 2018).
#pragma once

#include "gabbro/train/optimizer.h"

#pragma GCC visibility push(default)
namespace gabbro::train {

struct LossScalerOptions {
  double scale = 65536, growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // steps without overflow before the scale grows
};

// As torch.amp.GradScaler, but nothing is read back: the scale is a tensor, and a step with a gradient that is infinite
// or NaN leaves everything unchanged by selecting in the same plan.
//   backward(scaler.scaled(loss)); scaler.unscale(optimizer); clip...; scaler.step(optimizer); scaler.update();
// Then evaluate() with scaler.tensors().
class LossScaler {
 public:
  explicit LossScaler(const std::shared_ptr<Device>& device, const LossScalerOptions& options = {});

  Tensor scaled(const Tensor& loss) const;  // in f32
  // The optimizer's gradients divided by the scale, once for each step; step() does it if it was not done.
  void unscale(const Optimizer& optimizer);
  void step(Optimizer& optimizer);
  // After all optimizers' steps: a smaller scale where a gradient was not finite, else a larger one from time to time.
  void update();

  // Goes on with what tensors() gave.
  void restore(const Tensor& scale, const Tensor& good_steps);

  const Tensor& scale() const { return scale_; }  // f32 ()
  std::vector<Tensor> tensors() const { return {scale_, good_steps_}; }

 private:
  LossScalerOptions options_;
  Tensor scale_, good_steps_;  // f32 ()
  Tensor overflow_;            // bool (): since the last update; undefined where nothing was unscaled
  std::vector<const Optimizer*> unscaled_;
  Tensor growth_, backoff_, interval_, one_, zero_;  // f32 ()
};

}  // namespace gabbro::train
#pragma GCC visibility pop
