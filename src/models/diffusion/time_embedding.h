// Timesteps as vectors.
#pragma once

#include <memory>
#include <vector>

#include "gabbro/nn/linear.h"

namespace gabbro::diffusion {

struct SinusoidOptions {
  int64_t width = 320;  // even
  bool cosines_first = true;
  double shift = 0;  // of the divisor of the exponents
  double longest = 10000;
};
// cos and sin of t · longest^(-i / (width / 2 - shift)) (Vaswani et al. 2017), in f32 as models were trained.
std::vector<float> sinusoid_features(double t, const SinusoidOptions& options);

struct TimeEmbeddingOptions {
  int64_t features = 320, width = 1280;
  int64_t guidance = 0;  // features of a guidance that are added by a matrix; 0: none
};

// linear_2(silu(linear_1(features))): [B, features] -> [B, width].
class TimeEmbedding : public nn::Module {
 public:
  TimeEmbedding(const nn::Factory& make, const TimeEmbeddingOptions& options);
  Tensor operator()(const Tensor& features, const Tensor& guidance) const;

  std::shared_ptr<nn::Linear> linear_1, linear_2;
  std::shared_ptr<nn::Linear> cond_proj;  // null: no guidance
};

}  // namespace gabbro::diffusion
