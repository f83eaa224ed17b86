// Functions of neural networks: activations, products with weights, normalizations, rotary embeddings. Letters of
// shapes are explained in docs/words.md.
#pragma once

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x, bool approximate = false);  // x · Φ(x) by erf, or its approximation by tanh
Tensor silu(const Tensor& x);                            // x · sigmoid(x)
Tensor softmax(const Tensor& x, int64_t axis = -1);      // of any float; kernels know the last axis
Tensor log_softmax(const Tensor& x, int64_t axis = -1);
// [..., K], [N, K], [N]? -> [..., N] of x's dtype; f16 and bf16 are computed in f32.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
Tensor dequantize(const Tensor& weight);                    // [N, K] of any block format -> f32
Tensor embedding(const Tensor& weight, const Tensor& ids);  // [V, C] of any dtype, integers [...] -> f32 [..., C]
Tensor rms_norm(const Tensor& x, const Tensor& weight, float epsilon);

// y = (x - mean) / sqrt(variance + epsilon) · weight + bias, of x in f32, f16 or bf16; computed in f32. weight and bias
// are of f32 or of x's dtype, and may be left out (undefined).
// layer_norm: over x's last axes, the axes of weight and bias; the last axis if both are left out.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon);
// group_norm: x [N, C, ...], over C / groups channels together with all axes after; weight, bias [C].
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, float epsilon);
// batch_norm: x [N, C, ...] with given mean, variance, weight, bias [C].
struct BatchNorm {
  Tensor mean, variance, weight, bias;
  float epsilon = 1e-5f;
};
Tensor batch_norm(const Tensor& x, const BatchNorm& norm);
// Batch norm with the moments of this batch; moves the running ones toward them by `momentum` (the variance as
// var(x) with correction 1, as PyTorch has it).
struct TrainedBatchNorm {
  Tensor y, running_mean, running_variance;
};
TrainedBatchNorm batch_norm_training(const Tensor& x, const BatchNorm& running, float momentum);

struct RopeOptions {
  bool interleaved = false;  // rotate pairs (2i, 2i+1); otherwise (i, i + R/2)
  float magnitude = 1;       // factor on cos and sin (YaRN's attention factor)
};
// Rotary embedding (Su et al. 2021) of x [T, H, D] at positions i32 [T]; inverse_frequencies [R/2], R <= D.
Tensor rope(const Tensor& x, const Tensor& positions, const Tensor& inverse_frequencies, const RopeOptions& options);

}  // namespace gabbro
#pragma GCC visibility pop
