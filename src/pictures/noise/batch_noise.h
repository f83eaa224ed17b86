// The noise of several pictures that are drawn together.
#pragma once

#include "src/pictures/noise/noise_source.h"

namespace gabbro::pictures {

struct BatchNoiseOptions {
  NoiseKind kind = NoiseKind::kTorch;
  uint64_t seed = 0;
  size_t pictures = 1;  // of the batch
  // All pictures have one generator, which draws for the whole batch at once; else picture i has the one of seed + i.
  bool one_stream = false;
  size_t first = 0, count = 1;  // the pictures of the batch that are drawn
};

// Numbers [count, N] for [pictures, N] of the batch.
class BatchNoise final : public NoiseSource {
 public:
  explicit BatchNoise(const BatchNoiseOptions& options);

  // `numbers`: count · N.
  std::vector<float> normal(size_t numbers) override;
  // N numbers for each picture, the same for all in one stream.
  std::vector<float> normal_of_each(size_t numbers);

 private:
  BatchNoiseOptions options_;
  std::vector<std::unique_ptr<NoiseSource>> sources_;
};

}  // namespace gabbro::pictures
