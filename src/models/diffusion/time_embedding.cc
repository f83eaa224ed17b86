#include "src/models/diffusion/time_embedding.h"

#include <cmath>

#include "src/models/diffusion/resnet_block.h"
#include "src/ops/ops.h"

namespace gabbro::diffusion {

std::vector<float> sinusoid_features(double t, const SinusoidOptions& options) {
  const int64_t half = options.width / 2;
  const auto rate = static_cast<float>(-std::log(options.longest)), time = static_cast<float>(t);
  const auto divisor = static_cast<float>(static_cast<double>(half) - options.shift);
  std::vector<float> features(static_cast<size_t>(options.width));
  const auto sines = static_cast<size_t>(options.cosines_first ? half : 0);
  const auto cosines = static_cast<size_t>(options.cosines_first ? 0 : half);
  for (size_t i = 0; i < static_cast<size_t>(half); ++i) {
    const float angle = time * std::exp(rate * static_cast<float>(i) / divisor);
    features[sines + i] = std::sin(angle);
    features[cosines + i] = std::cos(angle);
  }
  return features;
}

TimeEmbedding::TimeEmbedding(const nn::Factory& make, const TimeEmbeddingOptions& o) {
  const auto linear = [&](const char* name, int64_t in, int64_t out, bool bias = true) -> std::shared_ptr<nn::Linear> {
    return make_linear(make.at(name), {.in_features = in, .out_features = out, .bias = bias});
  };
  add_module("linear_1", linear_1, linear("linear_1", o.features, o.width));
  if (o.guidance > 0) add_module("cond_proj", cond_proj, linear("cond_proj", o.guidance, o.features, false));
  add_module("linear_2", linear_2, linear("linear_2", o.width, o.width));
}

Tensor TimeEmbedding::operator()(const Tensor& features, const Tensor& guidance) const {
  const Tensor x = cond_proj != nullptr ? features + (*cond_proj)(guidance) : features;
  return (*linear_2)(silu((*linear_1)(x)));
}

}  // namespace gabbro::diffusion
