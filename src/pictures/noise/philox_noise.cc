// The normal numbers of A1111's "NV" generator: Philox 4x32-10 (Salmon et al. 2011), as a GPU of NVIDIA draws them for
// tensors of moderate size.
#include <array>
#include <cmath>

#include "src/pictures/noise/noise_source.h"
#include "src/pictures/noise/torch_noise.h"

namespace gabbro::pictures {
namespace {

// Words 0 and 1 of the block of (call, element).
std::array<uint32_t, 2> philox_words(uint64_t seed, uint32_t call, uint32_t element) {
  std::array<uint32_t, 4> counter{call, 0, element, 0};
  auto key = std::array{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return {counter[0], counter[1]};
}

class PhiloxNoise final : public NoiseSource {
 public:
  explicit PhiloxNoise(uint64_t seed) : seed_(seed) {}

  std::vector<float> normal(size_t count) override {
    constexpr float kUnit = 2.3283064e-10f, kTurn = static_cast<float>(2.3283064e-10 * 6.2831855);
    std::vector<float> numbers(count);
    for (size_t i = 0; i < count; ++i) {
      const auto [x, y] = philox_words(seed_, calls_, static_cast<uint32_t>(i));
      const double u = x * static_cast<double>(kUnit) + kUnit / 2, v = y * static_cast<double>(kTurn) + kTurn / 2;
      numbers[i] = static_cast<float>(std::sqrt(-2 * std::log(u)) * std::sin(v));
    }
    ++calls_;
    return numbers;
  }

 private:
  uint64_t seed_;
  uint32_t calls_ = 0;
};

}  // namespace

std::unique_ptr<NoiseSource> make_noise_source(NoiseKind kind, uint64_t seed) {
  if (kind == NoiseKind::kNv) return std::make_unique<PhiloxNoise>(seed);
  return std::make_unique<TorchNoise>(seed);
}

}  // namespace gabbro::pictures
