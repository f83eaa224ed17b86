// Weights as codes of 16 bits, many tokens: 16 rows × some tokens of integer dot products in registers, which run at
// twice the rate of f32 products. The sum of a chunk's products is exact in 32 bits.
#include <algorithm>
#include <bit>

#include "backends/cpu/kernels/linear/linear_dot.h"
#include "backends/cpu/pack/codes.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// A chunk of 16 rows, each column times `inverse`, as codes.
template <class Weight>
[[gnu::always_inline]] inline void store_rounded(const Weight& weight, F32 inverse, int16_t* codes) {
  const auto code = [&](int k) { return round_to_i32(weight(k) * inverse); };
  for (int k = 0; k < kChunk; k += 4) {
    int16_t* to = codes + k * kPanelRows;
    store_words(to, join_words(code(k), code(k + 2)));
    store_words(to + 2 * kPanelRows, join_words(code(k + 1), code(k + 3)));
  }
}

// A chunk of 16 rows to codes with a scale for each row; weight(k): the weights of column k. With an infinity or a NaN
// the scale is a NaN.
template <class Weight>
[[gnu::always_inline]] inline void round_chunk(const Weight& weight, int16_t* codes, float* scales) {
  const F32 levels = splat(kWordLevels), least = splat(kLeastWordPeak);
  F32 peak = zero_f32(), probe = zero_f32();
  for (int k = 0; k < kChunk; ++k) {
    const F32 w = weight(k);
    peak = max(peak, abs(w));
    probe = fma(w, zero_f32(), probe);
  }
  store_rounded(weight, select(least < peak, levels / peak, zero_f32()), codes);
  store(scales, peak / levels + probe);
}

// f16 or bf16.
template <DType dtype>
void unpack_plain(const void* panel, int64_t columns, const UnpackedPanel& out) {
  const auto* weights = static_cast<const char*>(panel);
  for (int64_t chunk = 0; chunk < columns / kChunk; ++chunk) {
    const auto weight = [&](int k) {
      return (dtype == DType::f16 ? load_half : load_bfloat)(weights + (chunk * kChunk + k) * kPanelRows * 2);
    };
    round_chunk(weight, out.codes + chunk * kChunk * kPanelRows, out.scales + chunk * kPanelRows);
  }
}

// E4M3 codes have four significant bits: with a power of two as scale all are exact but those below 2⁻⁹ of the largest.
template <Packing p>
void unpack_e4m3(const void* panel, int64_t columns, const UnpackedPanel& out) {
  const auto* bytes = static_cast<const uint8_t*>(panel);
  const F32 levels = splat(4096);
  alignas(64) float powers[kPanelRows];
  for (int64_t chunk = 0; chunk < columns / kChunk; ++chunk) {
    const uint8_t* weights = bytes + small_codes_at(p, chunk, columns);
    F32 peak = zero_f32();
    for (int k = 0; k < kChunk; ++k) peak = max(peak, abs(load_e4m3(weights + k * kPanelRows)));
    store(powers, peak);
    for (float& power : powers) power = std::bit_cast<float>(std::bit_cast<uint32_t>(power) & 0x7f800000u);
    const F32 power = load(powers);  // of two, and at most the peak, which is less than twice as large
    const F32 inverse = select(zero_f32() < peak, levels / power, zero_f32());
    store_rounded([&](int k) { return load_e4m3(weights + k * kPanelRows); }, inverse,
                  out.codes + chunk * kChunk * kPanelRows);
    const F32 scale = load_scale<p>(bytes + small_scale_at(p, chunk));
    store(out.scales + chunk * kPanelRows, power / levels * scale);
  }
}

// Vectors first to first + count - 1 of a chunk, their levels times `factor`.
template <Packing p, int first, int count>
[[gnu::always_inline]] inline void unpack_vectors(const uint8_t* chunk, Words factor, int16_t* codes) {
  const Words zero = splat_words(p.zero);
  unroll<count>([&](auto i) {
    constexpr int q = first + i;
    const LevelWords levels = level_words<p, q>(chunk);
    store_words(codes + 2 * q * 2 * kPanelRows, (levels.even - zero) * factor);
    store_words(codes + (2 * q + 1) * 2 * kPanelRows, (levels.odd - zero) * factor);
  });
}

// A level times its sub-scale is a code: at most 127·128 / 4 (Q6_K, IQ4_XS).
template <Packing p>
void unpack_quantized(const void* panel, int64_t columns, const UnpackedPanel& out) {
  constexpr int kGroups = kChunk / p.group, kVectors = 8 / kGroups;
  const auto* bytes = static_cast<const uint8_t*>(panel);
  for (int64_t chunk = 0; chunk < columns / kChunk; ++chunk) {
    int16_t* const codes = out.codes + chunk * kChunk * kPanelRows;
    float* const minimums = out.minimums + chunk * kGroups * kPanelRows;
    if constexpr (p.sub_scales) {
      const uint8_t* block = bytes + chunk / 8 * block_bytes(p);
      store(out.scales + chunk * kPanelRows, load(reinterpret_cast<const float*>(block + scale_at(p))));
      unroll<kGroups>([&](auto g) {
        const int64_t at = (chunk % 8 * kGroups + g) * kPanelRows;
        const I32 sub_scale = load_i8(reinterpret_cast<const int8_t*>(block + sub_scales_at(p) + at));
        unpack_vectors<p, g * kVectors, kVectors>(block + chunk % 8 * chunk_bytes(p), join_words(sub_scale, sub_scale),
                                                  codes);
        if constexpr (p.minimum) {
          const F32 minimum = load(reinterpret_cast<const float*>(block + minimum_at(p)));
          store(minimums + g * kPanelRows, minimum * to_f32(load_u8(block + sub_minimums_at(p) + at)));
        }
      });
    } else {
      const uint8_t* header = bytes + small_scale_at(p, chunk);
      unpack_vectors<p, 0, 8>(bytes + small_codes_at(p, chunk, columns), splat_words(1), codes);
      const F32 scale = load_scale<p>(header);
      store(out.scales + chunk * kPanelRows, scale);
      if constexpr (p.minimum) store(minimums, load_minimum<p>(header, scale));
    }
  }
}

// Tokens `first` and on of a tile that is W wide; kMinimums to a chunk.
template <int kMinimums, int W, int kTokens, int kPanels>
void block(const UnpackedPanel* panels, int64_t columns, const WordTile& tile, int first, float* y) {
  F32 results[kPanels][kTokens];
  for (auto& row : results) {
    for (F32& result : row) result = zero_f32();
  }
  const int16_t* codes[kPanels];
  for (int p = 0; p < kPanels; ++p) codes[p] = panels[p].codes;
  const int16_t* x = tile.codes + first * 2;
  for (int64_t chunk = 0; chunk < columns / kChunk; ++chunk) {
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
    for (int p = 0; p < kPanels; ++p) scales[p] = load(panels[p].scales + chunk * kPanelRows);
    unroll<kTokens>([&](auto t) {
      const F32 x_scale = splat(tile.scales[chunk * W + first + t]);
      for (int p = 0; p < kPanels; ++p) results[p][t] = fma(to_f32(dots[p][t]) * scales[p], x_scale, results[p][t]);
    });
    for (int64_t g = chunk * kMinimums; g < (chunk + 1) * kMinimums; ++g) {
      F32 minimums[kPanels];
      for (int p = 0; p < kPanels; ++p) minimums[p] = load(panels[p].minimums + g * kPanelRows);
      unroll<kTokens>([&](auto t) {
        const F32 sum = splat(std::bit_cast<float>(tile.sums[g * W + first + t]));
        for (int p = 0; p < kPanels; ++p) results[p][t] = fma(minimums[p], sum, results[p][t]);
      });
    }
  }
  for (int p = 0; p < kPanels; ++p) {
    for (int t = 0; t < kTokens; ++t) store(y + (p * W + first + t) * kLanes, results[p][t]);
  }
}

template <int kMinimums, int W, int kPanels>
void many(const UnpackedPanel* panels, int64_t columns, const WordTile& tile, float* y) {
  // Two panels share each broadcast of activations where there are registers for it; Zen 4 has one such load a cycle.
  constexpr int kTogether = std::min(kPanels, kTileVectors);
  constexpr int kTokens = tokens_at_once(W, kWordSums / kTogether);
  for (int panel = 0; panel < kPanels; panel += kTogether) {
    for (int first = 0; first < W; first += kTokens) {
      block<kMinimums, W, kTokens, kTogether>(panels + panel, columns, tile, first, y + panel * W * kLanes);
    }
  }
}

template <int kMinimums, int W>
MultiTokenI16 many_of(int count) {
  return count == 2 ? many<kMinimums, W, 2> : many<kMinimums, W, 1>;
}

template <int kMinimums>
MultiTokenI16 many_of(int width, int count) {
  return width == 12  ? many_of<kMinimums, 12>(count)
         : width == 8 ? many_of<kMinimums, 8>(count)
                      : many_of<kMinimums, 4>(count);
}

int64_t code_bytes(int64_t columns) { return columns * kPanelRows * 2; }
int64_t scale_bytes(int64_t columns) { return aligned(columns / kChunk * kPanelRows * 4); }

// Number of minimums of a chunk.
int minimums_of(DType dtype) {
  const Packing p = packing_of(dtype);
  return p.minimum ? kChunk / p.group : 0;
}

}  // namespace

int64_t UnpackedPanel::bytes(DType dtype, int64_t columns) {
  return code_bytes(columns) + (1 + minimums_of(dtype)) * scale_bytes(columns);
}

UnpackedPanel UnpackedPanel::at(char* memory, int64_t columns) {
  char* scales = memory + code_bytes(columns);
  char* lowest = scales + scale_bytes(columns);
  return {reinterpret_cast<int16_t*>(memory), reinterpret_cast<float*>(scales), reinterpret_cast<float*>(lowest)};
}

Unpack unpack_function(DType dtype) {
  if (dtype == DType::f16) return unpack_plain<DType::f16>;
  if (dtype == DType::bf16) return unpack_plain<DType::bf16>;
  return dispatch_packing(dtype, []<Packing p>() -> Unpack {
    if constexpr (p.e4m3) {
      return unpack_e4m3<p>;
    } else {
      return unpack_quantized<p>;
    }
  });
}

MultiTokenI16 multi_token_i16(DType dtype, int width, int count) {
  const int per_chunk = minimums_of(dtype);
  return per_chunk == 2   ? many_of<2>(width, count)
         : per_chunk == 1 ? many_of<1>(width, count)
                          : many_of<0>(width, count);
}

}  // namespace gabbro::cpu::GABBRO_ISA
