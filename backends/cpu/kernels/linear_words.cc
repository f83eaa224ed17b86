// f16 and bf16 weights, many tokens: both operands as 16-bit codes, whose dot products run at twice the rate of f32. A
// group of 32 has a scale per row, and its sum of products is exact in 32 bits.
#include <algorithm>

#include "backends/cpu/kernels/linear_dot.h"
#include "backends/cpu/pack/codes.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// A group of a row with an infinity or a NaN has a scale of NaN.
template <DType dtype>
void unpack(const void* panel, int64_t columns, const UnpackedPanel& out) {
  const auto* weights = static_cast<const char*>(panel);
  auto* codes = reinterpret_cast<int16_t*>(out.codes);
  const F32 levels = splat(kWordLevels), least = splat(kLeastWordPeak);
  for (int64_t chunk = 0; chunk < columns / kChunk; ++chunk) {
    const auto weight = [&](int k) {
      return (dtype == DType::f16 ? load_half : load_bfloat)(weights + (chunk * kChunk + k) * kPanelRows * 2);
    };
    F32 peak = zero_f32(), probe = zero_f32();
    for (int k = 0; k < kChunk; ++k) {
      const F32 w = weight(k);
      peak = max(peak, abs(w));
      probe = fma(w, zero_f32(), probe);
    }
    const F32 inverse = select(least < peak, levels / peak, zero_f32());
    for (int k = 0; k < kChunk; k += 2) {
      const I32 even = round_to_i32(weight(k) * inverse), odd = round_to_i32(weight(k + 1) * inverse);
      store_words(codes + (chunk * kChunk + k) * kPanelRows, join_words(even, odd));
    }
    store(out.scales + chunk * kPanelRows, peak / levels + probe);
  }
}

// Tokens `first` and on of a tile that is W wide.
template <int W, int kTokens, int kPanels>
void block(const UnpackedPanel* panels, int64_t columns, const WordTile& tile, int first, float* y) {
  F32 results[kPanels][kTokens];
  for (auto& row : results) {
    for (F32& result : row) result = zero_f32();
  }
  const int16_t* codes[kPanels];
  for (int p = 0; p < kPanels; ++p) codes[p] = reinterpret_cast<const int16_t*>(panels[p].codes);
  const int16_t* x = tile.codes + first * 2;
  for (int64_t g = 0; g < columns / kChunk; ++g) {
    I32 dots[kPanels][kTokens];
    for (auto& row : dots) {
      for (I32& dot : row) dot = zero_i32();
    }
    unroll<kChunk / 2>([&](auto q) {
      Words w[kPanels];
      for (int p = 0; p < kPanels; ++p) w[p] = load_words(codes[p] + q * 2 * kPanelRows);
      unroll<kTokens>([&](auto t) {
        const Pair pair = splat_pair(x + (q * W + t) * 2);
        for (int p = 0; p < kPanels; ++p) dots[p][t] = dot2(dots[p][t], w[p], pair);
      });
    });
    x += kChunk * W;
    for (int p = 0; p < kPanels; ++p) codes[p] += kChunk * kPanelRows;
    // The weights' scale first: the largest activations would overflow times a sum of codes.
    F32 scales[kPanels];
    for (int p = 0; p < kPanels; ++p) scales[p] = load(panels[p].scales + g * kPanelRows);
    unroll<kTokens>([&](auto t) {
      const F32 x_scale = splat(tile.scales[g * W + first + t]);
      for (int p = 0; p < kPanels; ++p) results[p][t] = fma(to_f32(dots[p][t]) * scales[p], x_scale, results[p][t]);
    });
  }
  for (int p = 0; p < kPanels; ++p) {
    for (int t = 0; t < kTokens; ++t) store(y + (p * W + first + t) * kLanes, results[p][t]);
  }
}

template <int W, int kPanels>
void many(const UnpackedPanel* panels, int64_t columns, const WordTile& tile, float* y) {
  // Two panels share each broadcast of activations where there are registers for it; Zen 4 has one such load a cycle.
  constexpr int kTogether = std::min(kPanels, kTileVectors);
  constexpr int kTokens = tokens_at_once(W, kWordSums / kTogether);
  for (int panel = 0; panel < kPanels; panel += kTogether) {
    for (int first = 0; first < W; first += kTokens) {
      block<W, kTokens, kTogether>(panels + panel, columns, tile, first, y + panel * W * kLanes);
    }
  }
}

template <int W>
ManyWords many_of(int count) {
  return count == 2 ? many<W, 2> : many<W, 1>;
}

}  // namespace

Unpack unpack_words(DType dtype) { return dtype == DType::f16 ? unpack<DType::f16> : unpack<DType::bf16>; }

ManyWords many_words(int width, int count) {
  return width == 12 ? many_of<12>(count) : width == 8 ? many_of<8>(count) : many_of<4>(count);
}

}  // namespace gabbro::cpu::GABBRO_ISA
