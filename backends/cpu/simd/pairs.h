// Products of pairs of bf16 in plain C++: what avx512.h has an instruction for. A pair is a word of 32 bits, the first
// of its elements below; each lane of a sum gains both products.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace gabbro::cpu::GABBRO_ISA {

// sums [kRows][kVectors · 16], rows `stride` apart, += or = A · B: a [steps][row_step], kRows of it used, and
// b [steps][kVectors · 16].
template <int kRows, int kVectors, int kRowStep>
void add_pairs(const float* a, const float* b, int64_t steps, bool accumulate, float* sums, int64_t stride) {
  const auto split_pair = [](const float* pair, float& low, float& high) {
    uint32_t bits;
    std::memcpy(&bits, pair, sizeof bits);
    low = std::bit_cast<float>(bits << 16);
    high = std::bit_cast<float>(bits & 0xffff0000);
  };
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kVectors * 16; ++j) {
      float sum = accumulate ? sums[r * stride + j] : 0;
      for (int64_t s = 0; s < steps; ++s) {
        float a_low, a_high, b_low, b_high;
        split_pair(a + s * kRowStep + r, a_low, a_high);
        split_pair(b + s * kVectors * 16 + j, b_low, b_high);
        sum += a_low * b_low;
        sum += a_high * b_high;
      }
      sums[r * stride + j] = sum;
    }
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
