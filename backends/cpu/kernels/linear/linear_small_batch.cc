// Quantized weights, tiles of the tokens of several sequences: levels are unpacked into registers, once for each pass
// over some tokens. This should be bound by the integer products, with the weights of the next item on their way.
#include <algorithm>
#include <bit>

#include "backends/cpu/kernels/linear/linear_dot.h"
#include "backends/cpu/kernels/linear/linear_e4m3.h"
#include "backends/cpu/pack/codes.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// Sums of one pass: kPanels panels with kTokens tokens of a tile.
template <class T, int kPanels, int kTokens>
using Sums = T[kPanels][kTokens];

template <int kPanels, int kTokens>
[[gnu::always_inline]] inline void clear(Sums<F32, kPanels, kTokens>& sums) {
  for (auto& row : sums) {
    for (F32& sum : row) sum = zero_f32();
  }
}

template <int kPanels, int kTokens>
[[gnu::always_inline]] inline void start(Sums<I32, kPanels, kTokens>& dots, const int32_t* sums, bool zero) {
  for (int t = 0; t < kTokens; ++t) {
    const I32 first = zero ? zero_i32() : splat_i32(sums[t]);
    for (int m = 0; m < kPanels; ++m) dots[m][t] = first;
  }
}

// dots += levels · x for vectors first to first + count - 1 of a chunk at `offset` in each panel; x is W tokens wide.
template <Packing p, int first, int count, int W, int kPanels, int kTokens>
[[gnu::always_inline]] inline void dot_vectors(Sums<I32, kPanels, kTokens>& dots, const uint8_t* const* panels,
                                               int64_t offset, const int16_t* x) {
  unroll<count>([&](auto i) {
    constexpr int q = first + i;
    Words even[kPanels], odd[kPanels];
    for (int m = 0; m < kPanels; ++m) {
      const LevelWords levels = level_words<p, q>(panels[m] + offset);
      even[m] = levels.even;
      odd[m] = levels.odd;
    }
    for (int t = 0; t < kTokens; ++t) {
      const Pair pair = splat_pair(x + (2 * q * W + t) * 2);
      for (int m = 0; m < kPanels; ++m) dots[m][t] = dot2(dots[m][t], even[m], pair);
    }
    for (int t = 0; t < kTokens; ++t) {
      const Pair pair = splat_pair(x + ((2 * q + 1) * W + t) * 2);
      for (int m = 0; m < kPanels; ++m) dots[m][t] = dot2(dots[m][t], odd[m], pair);
    }
  });
}

// The products of a chunk without sub-scales.
template <Packing p, int W, int kPanels, int kTokens>
[[gnu::always_inline]] inline void dot_chunk(Sums<F32, kPanels, kTokens>& dots, const uint8_t* const* panels,
                                             int64_t offset, const WordTile& x) {
  if constexpr (p.e4m3) {
    dot_e4m3<W>(dots, panels, offset, x.codes);
  } else {
    Sums<I32, kPanels, kTokens> sums;
    start(sums, x.sums, p.zero == 0);
    dot_vectors<p, 0, 8, W>(sums, panels, offset, x.codes);
    for (int m = 0; m < kPanels; ++m) {
      for (int t = 0; t < kTokens; ++t) dots[m][t] = to_f32(sums[m][t]);
    }
  }
}

// The panels of a pass.
template <int kPanels>
struct Panels {
  const uint8_t* at[kPanels];
  int64_t ahead;  // bytes to what is prefetched

  // An item takes so long that the same bytes of the next one can be asked for, into the L2: with the distance of a
  // single token two panels of Q8_0, which are two streams, took 1.35 times as long on Zen 4.
  template <int64_t count>
  [[gnu::always_inline]] void prefetch(int64_t offset) const {
    for (int m = 0; m < kPanels; ++m) {
      for (int64_t i = 0; i < count; i += 64) __builtin_prefetch(at[m] + ahead + offset + i, 0, 2);
    }
  }
};

inline F32 splat_bits(const int32_t* bits) { return splat(std::bit_cast<float>(*bits)); }

template <Packing p, int W, int kTokens, int kPanels>
[[gnu::always_inline]] inline void small_blocks(const Panels<kPanels>& weights, int64_t columns, WordTile x, float* y) {
  const auto& panels = weights.at;
  Sums<F32, kPanels, kTokens> results;
  clear(results);
  int64_t pair = 0;
  for (int64_t left = columns / kChunk; left > 0; left -= 2) {
    weights.template prefetch<pair_bytes(p)>(pair);
    int64_t header = pair, chunk = pair + header_bytes(p, left);
    for (int64_t c = 0; c < (left > 1 ? 2 : 1); ++c) {
      Sums<F32, kPanels, kTokens> dots;
      dot_chunk<p, W>(dots, panels, chunk, x);
      F32 scales[kPanels];
      for (int m = 0; m < kPanels; ++m) scales[m] = load_scale<p>(panels[m] + header);
      for (int t = 0; t < kTokens; ++t) {
        const F32 x_scale = splat(x.scales[t]);
        for (int m = 0; m < kPanels; ++m) {
          results[m][t] = fma(dots[m][t], scales[m] * x_scale, results[m][t]);
        }
      }
      if constexpr (p.minimum) {
        F32 minimums[kPanels];
        for (int m = 0; m < kPanels; ++m) minimums[m] = load_minimum<p>(panels[m] + header, scales[m]);
        for (int t = 0; t < kTokens; ++t) {
          const F32 sum = splat_bits(x.sums + t);
          for (int m = 0; m < kPanels; ++m) results[m][t] = fma(minimums[m], sum, results[m][t]);
        }
      }
      header += header_step(p);
      chunk += chunk_bytes(p);
      x.codes += kChunk * W;
      x.scales += W;
      x.sums += W;
    }
    pair += pair_bytes(p);
  }
  for (int m = 0; m < kPanels; ++m) {
    for (int t = 0; t < kTokens; ++t) store(y + (m * W + t) * kLanes, results[m][t]);
  }
}

template <Packing p, int W, int kTokens, int kPanels>
[[gnu::always_inline]] inline void super_blocks(const Panels<kPanels>& weights, int64_t columns, WordTile x, float* y) {
  const auto& panels = weights.at;
  constexpr int kGroups = kChunk / p.group;  // of a chunk
  Sums<F32, kPanels, kTokens> results;
  clear(results);
  int64_t block = 0;
  for (int64_t left = columns; left > 0; left -= 256) {
    Sums<F32, kPanels, kTokens> scaled, lowered;
    clear(scaled);
    clear(lowered);
    for (int c = 0; c < 8; ++c) {
      weights.template prefetch<block_bytes(p) / 8>(block + c * block_bytes(p) / 8);
      Sums<I32, kPanels, kTokens> whole;
      unroll<kGroups>([&](auto g) {
        constexpr int kVectors = 8 / kGroups;
        Sums<I32, kPanels, kTokens> dots;
        start(dots, x.sums + g * W, p.zero == 0);
        dot_vectors<p, g * kVectors, kVectors, W>(dots, panels, block + c * chunk_bytes(p), x.codes);
        const int64_t at = block + (c * kGroups + g) * kPanelRows;
        for (int m = 0; m < kPanels; ++m) {
          const I32 sub_scale = load_i8(reinterpret_cast<const int8_t*>(panels[m] + sub_scales_at(p) + at));
          for (int t = 0; t < kTokens; ++t) {
            whole[m][t] = g == 0 ? dots[m][t] * sub_scale : whole[m][t] + dots[m][t] * sub_scale;
          }
          if constexpr (p.minimum) {
            const F32 sub_minimum = to_f32(load_u8(panels[m] + sub_minimums_at(p) + at));
            for (int t = 0; t < kTokens; ++t) {
              lowered[m][t] = fma(sub_minimum, splat_bits(x.sums + g * W + t), lowered[m][t]);
            }
          }
        }
      });
      for (int t = 0; t < kTokens; ++t) {
        const F32 x_scale = splat(x.scales[t]);
        for (int m = 0; m < kPanels; ++m) scaled[m][t] = fma(to_f32(whole[m][t]), x_scale, scaled[m][t]);
      }
      x.codes += kChunk * W;
      x.scales += W;
      x.sums += kGroups * W;
    }
    for (int m = 0; m < kPanels; ++m) {
      const F32 scale = load(reinterpret_cast<const float*>(panels[m] + block + scale_at(p)));
      for (int t = 0; t < kTokens; ++t) results[m][t] = fma(scale, scaled[m][t], results[m][t]);
      if constexpr (p.minimum) {
        const F32 minimum = load(reinterpret_cast<const float*>(panels[m] + block + minimum_at(p)));
        for (int t = 0; t < kTokens; ++t) results[m][t] = fma(minimum, lowered[m][t], results[m][t]);
      }
    }
    block += block_bytes(p);
  }
  for (int m = 0; m < kPanels; ++m) {
    for (int t = 0; t < kTokens; ++t) store(y + (m * W + t) * kLanes, results[m][t]);
  }
}

// One pass: tokens `first` and on of a tile that is W wide.
template <Packing p, int W, int kTokens, int kPanels>
void pass(const Panels<kPanels>& weights, int64_t columns, WordTile x, float* y) {
  if constexpr (p.sub_scales) {
    super_blocks<p, W, kTokens, kPanels>(weights, columns, x, y);
  } else {
    small_blocks<p, W, kTokens, kPanels>(weights, columns, x, y);
  }
}

template <Packing p, int W, int kCount>
void tile(const PackedPanels& weights, int64_t columns, const WordTile& x, float* y) {
  constexpr int kPanels = std::min(kCount, kTileVectors), kTokens = tokens_at_once(W, std::min(W, kPackedTokens));
  for (int panel = 0; panel < kCount; panel += kPanels) {
    Panels<kPanels> panels = {.at = {}, .ahead = weights.ahead};
    for (int m = 0; m < kPanels; ++m) panels.at[m] = static_cast<const uint8_t*>(weights.panels[panel + m]);
    for (int first = 0; first < W; first += kTokens) {
      const WordTile tokens = {.codes = x.codes + first * 2, .scales = x.scales + first, .sums = x.sums + first};
      pass<p, W, kTokens, kPanels>(panels, columns, tokens, y + (panel * W + first) * kLanes);
    }
  }
}

}  // namespace

PackedDot packed_dot(DType dtype, int width, int count) {
  return dispatch_packing(dtype, [&]<Packing p>() -> PackedDot {
    if (width == 4) return count == 2 ? tile<p, 4, 2> : tile<p, 4, 1>;
    return count == 2 ? tile<p, 8, 2> : tile<p, 8, 1>;
  });
}

}  // namespace gabbro::cpu::GABBRO_ISA
