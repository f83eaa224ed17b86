// Losses: functions of what a model says and the target.
#pragma once

#include <cstdint>

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

// Losses of f32, f16 or bf16 (computed in f32), as torch.nn.functional has them: one number (shape ()), or with kNone
// one for each element.
enum class Reduce { kNone, kMean, kSum };
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean);  // (x - target)²
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean);   // |x - target|
// -target · log x - (1 - target) · log(1 - x), logarithms not below -100.
Tensor bce_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean);
// target · (log target - x), 0 where target is 0; x holds logarithms.
Tensor kl_div(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean);
// -x[n, target[n]] of logarithms x [N, V] and target i32 [N]; targets of `ignored` count for nothing, nor in the mean.
Tensor nll_loss(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean, int32_t ignored = -100);
// nll_loss of log_softmax(x).
Tensor cross_entropy(const Tensor& x, const Tensor& target, Reduce reduce = Reduce::kMean, int32_t ignored = -100);

}  // namespace gabbro
#pragma GCC visibility pop
