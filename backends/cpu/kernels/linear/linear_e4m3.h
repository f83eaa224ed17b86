// Products of a chunk of E4M3 codes, which are not integers: in f32, with the activations' codes of 16 bits.
#pragma once

#include "backends/cpu/kernels/linear/linear_dot.h"
#include "backends/cpu/pack/codes.h"

namespace gabbro::cpu::GABBRO_ISA {

// sums[m][t] = the chunk at `offset` of panel m times token t of those at x, of a tile that is W wide; with weights as
// load_e4m3() gives them.
template <int W, int kPanels, int kTokens>
[[gnu::always_inline]] inline void dot_e4m3(F32 (&sums)[kPanels][kTokens], const uint8_t* const* panels, int64_t offset,
                                            const int16_t* x) {
  constexpr int kSums = kPanels * kTokens < 4 ? 2 : 1;  // independent ones, where there are few
  float values[kChunk / 2][kTokens][2];
  for (int pair = 0; pair < kChunk / 2; ++pair) {
    for (int t = 0; t < kTokens; ++t) {
      for (int i = 0; i < 2; ++i) values[pair][t][i] = static_cast<float>(x[(pair * W + t) * 2 + i]);
    }
  }
  F32 parts[kSums][kPanels][kTokens];
  for (auto& part : parts) {
    for (auto& row : part) {
      for (F32& sum : row) sum = zero_f32();
    }
  }
  unroll<kChunk>([&](auto k) {
    constexpr int kPair = k / 4 * 2 + k % 2, kPlace = k % 4 / 2;  // as WordTile deals them
    for (int m = 0; m < kPanels; ++m) {
      const F32 weight = load_e4m3(panels[m] + offset + k * kPanelRows);
      for (int t = 0; t < kTokens; ++t) {
        F32& sum = parts[k % kSums][m][t];
        sum = fma(weight, splat(values[kPair][t][kPlace]), sum);
      }
    }
  });
  for (int m = 0; m < kPanels; ++m) {
    for (int t = 0; t < kTokens; ++t)
      sums[m][t] = kSums == 2 ? parts[0][m][t] + parts[kSums - 1][m][t] : parts[0][m][t];
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
