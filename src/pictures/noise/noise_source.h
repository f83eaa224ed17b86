// Streams of normal numbers that equal other programs' numbers for the same seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::pictures {

class NoiseSource {
 public:
  virtual ~NoiseSource() = default;
  // The next `count` numbers of mean 0 and variance 1, in f32.
  virtual std::vector<float> normal(size_t count) = 0;
};

// torch: a CPU generator of PyTorch, which diffusers and ComfyUI use; nv: the GPU numbers as A1111 computes them on any
// device.
enum class NoiseKind { kTorch, kNv };
std::unique_ptr<NoiseSource> make_noise_source(NoiseKind kind, uint64_t seed);

}  // namespace gabbro::pictures
