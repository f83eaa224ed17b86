// The register tile of depthwise convolutions: some rows of outputs by one vector. A vector of x is loaded once for all
// taps below each other that see it, which keeps the number of loads, most of them across cache lines, below the
// number of multiplications.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "backends/cpu/kernels/conv/clipped_row.h"
#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {

// Elements from row to row of what the tile reads: known to the compiler, and an odd number of cache lines.
inline constexpr int64_t kDepthwisePitch = 9 * kLanes;

// Taps below each other.
struct TapRun {
  int64_t at;      // of x, where the first output sees the first of them
  int64_t weight;  // of the first
};

// First runs of kTaps taps, from `shorter` on runs of one less.
struct TapRuns {
  const TapRun *begin, *shorter, *end;
  const float* weights;
  int64_t weight_step;  // from a tap to the one below
  F32 bias;
};

// Meaning of a vector's lanes: neighboring outputs, with one weight for all, or channels, with one weight each.
enum class Lanes { kOutputs, kChannels };

template <Lanes kAre, int kRows, int kTaps>
[[gnu::always_inline]] inline void add_runs(const TapRun* run, const TapRun* end, const TapRuns& runs, const float* x,
                                            F32* sum) {
  for (; run != end; ++run) {
    F32 weight[kTaps];
#pragma GCC unroll 8
    for (int tap = 0; tap < kTaps; ++tap) {
      const float* at = runs.weights + run->weight + tap * runs.weight_step;
      weight[tap] = kAre == Lanes::kOutputs ? splat(*at) : load(at);
    }
#pragma GCC unroll 16
    for (int row = 0; row < kRows + kTaps - 1; ++row) {
      const F32 clipped = load_once(x + run->at + row * kDepthwisePitch);
#pragma GCC unroll 8
      for (int tap = 0; tap < kTaps; ++tap) {
        if (row - tap >= 0 && row - tap < kRows) sum[row - tap] = fma(weight[tap], clipped, sum[row - tap]);
      }
    }
  }
}

// kRows rows of y, `step` apart, of `columns` elements, a vector at least: the last one may overlap the one before.
template <Lanes kAre, int kRows, int kTaps>
void make_depthwise_rows(const TapRuns& runs, const float* x, int64_t columns, float* y, int64_t step) {
  for (const float* last = x + columns - kLanes;;) {
    F32 sum[kRows];
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) sum[row] = runs.bias;
    add_runs<kAre, kRows, kTaps>(runs.begin, runs.shorter, runs, x, sum);
    if constexpr (kTaps > 1) add_runs<kAre, kRows, kTaps - 1>(runs.shorter, runs.end, runs, x, sum);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) store(y + row * step, sum[row]);
    const int64_t next = std::min<int64_t>(kLanes, last - x);
    if (next == 0) return;
    x += next;
    y += next;
  }
}

// The taps below each other of one place in their rows are cut into runs of at most kDepthwiseTaps, whose lengths
// differ by one at most: calls with each run's length and its first tap.
inline int64_t longest_run(int64_t taps) { return pieces(taps, pieces(taps, kDepthwiseTaps)); }
template <class Run>
void cut_taps(int64_t taps, int64_t cuts, Run run) {
  for (int64_t cut = 0, first = 0; cut < cuts; ++cut) {
    const int64_t count = taps / cuts + (cut < taps % cuts ? 1 : 0);
    if (count > 0) run(count, first);
    first += count;
  }
}

using MakeDepthwiseRows = void (*)(const TapRuns& runs, const float* x, int64_t columns, float* y, int64_t step);

// Functions by rows, then by taps, each less one.
template <Lanes kAre>
inline constexpr auto kMakeDepthwiseRows = []<int... kIndex>(std::integer_sequence<int, kIndex...>) {
  return std::array<MakeDepthwiseRows, sizeof...(kIndex)>{
      make_depthwise_rows<kAre, kIndex / kDepthwiseTaps + 1, kIndex % kDepthwiseTaps + 1>...};
}
(std::make_integer_sequence<int, kDepthwiseRows * kDepthwiseTaps>{});

}  // namespace gabbro::cpu::GABBRO_ISA
