// Losses that ops.h does not have as functions, and all of them as modules, named as in torch.nn. Each takes what the
// model says and the target, and gives one number (or with Reduce::kNone one for each element or row).
#pragma once

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

// |d| < beta: d² / (2 · beta), else |d| - beta / 2 (Girshick 2015). With a beta of 0 the l1 loss.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean, double beta = 1);
// |d| <= delta: d² / 2, else delta · (|d| - delta / 2) (Huber 1964).
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean, double delta = 1);

struct BceWithLogits {
  Reduce reduce = Reduce::kMean;
  Tensor weight{};      // of each element; broadcasts
  Tensor pos_weight{};  // of the positive ones; broadcasts
};
// bce_loss of sigmoid(x), by max(x, 0) - x · target + log(1 + e^-|x|).
Tensor bce_with_logits(const Tensor& x, const Tensor& target, const BceWithLogits& options = {});

struct CrossEntropy {
  Reduce reduce = Reduce::kMean;
  int32_t ignore_index = -100;  // such targets count for nothing
  Tensor weight{};              // [V], of each class; the mean is by their sum
  double label_smoothing = 0;   // what of the target is spread over all classes (Szegedy et al. 2016)
};
// x [N, V, ...], target i32 [N, ...] of classes.
Tensor cross_entropy_loss(const Tensor& x, const Tensor& target, const CrossEntropy& options = {});

// A module of a function of x, target and the reduction.
template <Tensor (*function)(const Tensor&, const Tensor&, Reduce)>
class PairLoss : public Module {
 public:
  explicit PairLoss(Reduce reduce = Reduce::kMean) : reduce_(reduce) {}
  Tensor operator()(const Tensor& x, const Tensor& target) const { return function(x, target, reduce_); }

 private:
  Reduce reduce_;
};
using MSELoss = PairLoss<gabbro::mse_loss>;
using L1Loss = PairLoss<gabbro::l1_loss>;
using BCELoss = PairLoss<gabbro::bce_loss>;
using KLDivLoss = PairLoss<gabbro::kl_div>;

class SmoothL1Loss : public Module {
 public:
  explicit SmoothL1Loss(Reduce reduce = Reduce::kMean, double beta = 1) : reduce_(reduce), beta_(beta) {}
  Tensor operator()(const Tensor& x, const Tensor& target) const { return smooth_l1_loss(x, target, reduce_, beta_); }

 private:
  Reduce reduce_;
  double beta_;
};

class HuberLoss : public Module {
 public:
  explicit HuberLoss(Reduce reduce = Reduce::kMean, double delta = 1) : reduce_(reduce), delta_(delta) {}
  Tensor operator()(const Tensor& x, const Tensor& target) const { return huber_loss(x, target, reduce_, delta_); }

 private:
  Reduce reduce_;
  double delta_;
};

// weight and pos_weight are buffers, as in PyTorch.
class BCEWithLogitsLoss : public Module {
 public:
  explicit BCEWithLogitsLoss(const BceWithLogits& options = {});
  Tensor operator()(const Tensor& x, const Tensor& target) const { return bce_with_logits(x, target, options_); }

 private:
  BceWithLogits options_;
};

// Negative log-likelihood of log-probabilities x [N, V], target i32 [N].
class NLLLoss : public Module {
 public:
  explicit NLLLoss(Reduce reduce = Reduce::kMean, int32_t ignore_index = -100)
      : reduce_(reduce), ignore_index_(ignore_index) {}
  Tensor operator()(const Tensor& x, const Tensor& target) const { return nll_loss(x, target, reduce_, ignore_index_); }

 private:
  Reduce reduce_;
  int32_t ignore_index_;
};

class CrossEntropyLoss : public Module {
 public:
  explicit CrossEntropyLoss(const CrossEntropy& options = {});
  Tensor operator()(const Tensor& x, const Tensor& target) const { return cross_entropy_loss(x, target, options_); }

 private:
  CrossEntropy options_;
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
