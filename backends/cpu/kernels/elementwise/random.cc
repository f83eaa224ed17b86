// Random numbers of a counter: Philox 4x32-10 (Salmon et al. 2011). Every device gives the same bits, so nothing here
// is left to a compiler's or a library's choice: products are added by fma alone, and logarithm, sine and cosine are
// ours.
#include <array>
#include <bit>
#include <cmath>

#include "backends/common/random_request.h"
#include "backends/cpu/kernels/rows/rows.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

using Words = std::array<uint32_t, 4>;

// key: seed, offset, stream, 64 bits each, the low word first.
Words philox(const uint32_t* key, uint64_t block) {
  const uint64_t counter = (uint64_t{key[3]} << 32 | key[2]) + block;
  Words c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), key[4], key[5]};
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53U} * c[0], b = uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

constexpr float kStep = 0x1p-24f;  // of numbers in [0, 1)

// log x of 2⁻²⁴ ≤ x ≤ 1. With x = 2ᵏ·m, m in [√½, √2), f = m - 1 and s = f/(2 + f): log m = 2·artanh(s) =
// f - f²/2 + s·(f²/2 + R(s²)).
float log_of(float x) {
  constexpr uint32_t kRootHalf = 0x3f3504f3;
  const uint32_t bits = std::bit_cast<uint32_t>(x) - kRootHalf;
  const auto k = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const float f = std::bit_cast<float>((bits & 0x7fffffU) + kRootHalf) - 1;
  const float s = f / (2 + f), z = s * s, half_square = 0.5f * f * f;
  float p = std::fma(z, 2.0f / 9, 2.0f / 7);
  p = std::fma(p, z, 2.0f / 5);
  p = std::fma(p, z, 2.0f / 3);
  const float log_m = f + std::fma(s, std::fma(z, p, half_square), -half_square);
  // ln 2 in two parts, the first with few enough bits that k times it is exact.
  return std::fma(k, 0x1.62e3p-1f, std::fma(k, 0x1.2fefa2p-17f, log_m));
}

// Two normal numbers of two words (Box & Muller 1958): √(-2·log u)·(cos 2πv, sin 2πv), u in (0, 1], v in [0, 1).
void normal_pair(uint32_t a, uint32_t b, float* y) {
  const float radius = std::sqrt(-2 * log_of(static_cast<float>((a >> 8) + 1) * kStep));
  // v is the nearest quarter and a rest of up to an eighth, both exact.
  const uint32_t shifted = (b >> 8) + (1U << 21), quarter = shifted >> 22 & 3U;
  const float angle = static_cast<float>(static_cast<int32_t>(shifted & 0x3fffffU) - (1 << 21)) * (6.28318531f * kStep);
  const float z = angle * angle, cube = angle * z;
  float p = std::fma(z, 1.0f / 362880, -1.0f / 5040);
  p = std::fma(p, z, 1.0f / 120);
  p = std::fma(p, z, -1.0f / 6);
  const float sine = std::fma(cube, p, angle);
  float q = std::fma(z, 1.0f / 40320, -1.0f / 720);
  q = std::fma(q, z, 1.0f / 24);
  q = std::fma(q, z, -0.5f);
  const float cosine = std::fma(z, q, 1.0f);
  const float c = quarter % 2 == 0 ? cosine : sine, s = quarter % 2 == 0 ? sine : cosine;
  y[0] = radius * (quarter == 1 || quarter == 2 ? -c : c);
  y[1] = radius * (quarter >= 2 ? -s : s);
}

class Random : public Kernel {
 public:
  explicit Random(const abi::RandomRequest& random) : random_(random) {
    implementation = "random " + std::string(abi::distribution_name(random.distribution));
    bytes = 4.0 * static_cast<double>(random.count);
    flops = 10.0 * static_cast<double>(random.count);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* key = static_cast<const uint32_t*>(launch.inputs[0].data);
    auto* y = static_cast<uint32_t*>(launch.outputs[0].data);
    worker.parallel_for((random_.count + 3) / 4, row_grain(4), [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const Words values = convert(philox(key, static_cast<uint64_t>(block)));
        const int64_t left = std::min<int64_t>(4, random_.count - 4 * block);
        std::copy_n(values.begin(), left, y + 4 * block);
      }
    });
  }

 private:
  // The bits of four results.
  Words convert(const Words& w) const {
    using Distribution = abi::RandomRequest::Distribution;
    Words y = w;
    float pair[2];
    switch (random_.distribution) {
      case Distribution::kBits:
        break;
      case Distribution::kUniform:
        for (uint32_t& v : y) v = std::bit_cast<uint32_t>(static_cast<float>(v >> 8) * kStep);
        break;
      case Distribution::kNormal:
        for (size_t i = 0; i < 4; i += 2) {
          normal_pair(w[i], w[i + 1], pair);
          y[i] = std::bit_cast<uint32_t>(pair[0]), y[i + 1] = std::bit_cast<uint32_t>(pair[1]);
        }
        break;
      case Distribution::kIntegers:
        for (uint32_t& v : y) {
          const uint64_t part = random_.range >> 32 != 0 ? v : v * random_.range >> 32;
          v = static_cast<uint32_t>(random_.low + static_cast<int64_t>(part));
        }
        break;
    }
    return y;
  }

  abi::RandomRequest random_;
};

}  // namespace

std::unique_ptr<Kernel> make_random(const abi::KernelRequest& request, const MakeContext&) {
  abi::RandomRequest random;
  return read_random_request(request, random) ? std::make_unique<Random>(random) : nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
