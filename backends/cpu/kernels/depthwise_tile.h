// The register tile of depthwise convolutions: some rows of outputs by one vector. A vector of x is loaded once for all
// taps below each other that see it, which is what keeps the loads, most of which straddle cache lines, below the
// multiplications.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {

// Elements from row to row of what the tile reads: known to the compiler, and an odd number of cache lines.
inline constexpr int64_t kDepthwisePitch = 9 * kLanes;

// Taps below each other.
struct TapRun {
  int64_t at;      // of x, where the first output sees the first of them
  int64_t weight;  // of the first
};

// Those of a channel: first runs of kTaps taps, from `shorter` on those of one less.
struct TapRuns {
  const TapRun *begin, *shorter, *end;
  const float* weights;
  int64_t weight_step;  // from a tap to the one below
  float bias;
};

template <int kRows, int kTaps>
[[gnu::always_inline]] inline void add_runs(const TapRun* run, const TapRun* end, const TapRuns& runs, const float* x,
                                            F32* sum) {
  for (; run != end; ++run) {
    F32 weight[kTaps];
#pragma GCC unroll 8
    for (int tap = 0; tap < kTaps; ++tap) weight[tap] = splat(runs.weights[run->weight + tap * runs.weight_step]);
#pragma GCC unroll 16
    for (int row = 0; row < kRows + kTaps - 1; ++row) {
      const F32 seen = load_once(x + run->at + row * kDepthwisePitch);
#pragma GCC unroll 8
      for (int tap = 0; tap < kTaps; ++tap) {
        if (row - tap >= 0 && row - tap < kRows) sum[row - tap] = fma(weight[tap], seen, sum[row - tap]);
      }
    }
  }
}

// kRows rows of y, `step` apart, of `columns` outputs, a vector at least: the last one may overlap the one before.
template <int kRows, int kTaps>
void make_depthwise_rows(const TapRuns& runs, const float* x, int64_t columns, float* y, int64_t step) {
  for (const float* last = x + columns - kLanes;;) {
    F32 sum[kRows];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) sum[row] = splat(runs.bias);
    add_runs<kRows, kTaps>(runs.begin, runs.shorter, runs, x, sum);
    if constexpr (kTaps > 1) add_runs<kRows, kTaps - 1>(runs.shorter, runs.end, runs, x, sum);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) store(y + row * step, sum[row]);
    const int64_t next = std::min<int64_t>(kLanes, last - x);
    if (next == 0) return;
    x += next;
    y += next;
  }
}

using MakeDepthwiseRows = void (*)(const TapRuns& runs, const float* x, int64_t columns, float* y, int64_t step);

// By rows, then by taps, each less one.
inline constexpr auto kMakeDepthwiseRows = []<int... kIndex>(std::integer_sequence<int, kIndex...>) {
  return std::array<MakeDepthwiseRows, sizeof...(kIndex)>{
      make_depthwise_rows<kIndex / kDepthwiseTaps + 1, kIndex % kDepthwiseTaps + 1>...};
}
(std::make_integer_sequence<int, kDepthwiseRows * kDepthwiseTaps>{});

}  // namespace gabbro::cpu::GABBRO_ISA
