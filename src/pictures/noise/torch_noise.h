// torch.randn of float32 on the CPU, to the bit of its formulas.
#pragma once

#include <optional>
#include <random>

#include "src/pictures/noise/noise_source.h"

namespace gabbro::pictures {

// The numbers that torch.randn(count, generator=torch.Generator().manual_seed(seed)) gives, call after call. PyTorch's
// AVX2 code has polynomials for log, sin and cos, from which these numbers differ by 5e-7 at most.
class TorchNoise final : public NoiseSource {
 public:
  explicit TorchNoise(uint64_t seed) : engine_(static_cast<uint32_t>(seed)) {}
  std::vector<float> normal(size_t count) override;

 private:
  float uniform_float();    // 24 bits
  double uniform_double();  // 53 bits
  void fill_16(float* numbers);
  double next_double();

  std::mt19937 engine_;
  std::optional<double> cached_;  // the second number of a pair
};

}  // namespace gabbro::pictures
