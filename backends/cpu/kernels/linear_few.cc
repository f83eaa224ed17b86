// Quantised weights, one to four tokens: the packed panel is streamed once, and this should be bound by memory.
#include <bit>

#include "backends/cpu/kernels/linear_dot.h"
#include "backends/cpu/pack/codes.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <int N, int W>
[[gnu::always_inline]] inline void start(I32 (&dots)[N][W], const int32_t* sums, bool zero) {
  for (int n = 0; n < N; ++n) {
    for (int t = 0; t < W; ++t) dots[n][t] = zero ? zero_i32() : splat_i32(sums[t]);
  }
}

// dots += levels · x for vectors first to first + count - 1 of a chunk of each panel.
template <Packing p, int first, int count, int N, int W>
[[gnu::always_inline]] inline void dot_vectors(I32 (&dots)[N][W], const uint8_t* const (&chunks)[N], const int8_t* x) {
  unroll<count>([&](auto i) {
    constexpr int q = first + i;
    Bytes levels[N];
    for (int n = 0; n < N; ++n) levels[n] = level_vector<p, q>(chunks[n]);
    for (int t = 0; t < W; ++t) {
      const Four four = splat_four(x + (q * W + t) * 4);
      for (int n = 0; n < N; ++n) dots[n][t] = dot_levels<p>(dots[n][t], levels[n], four);
    }
  });
}

inline F32 splat_bits(const int32_t* bits) { return splat(std::bit_cast<float>(*bits)); }

template <int N, int W>
[[gnu::always_inline]] inline void clear(F32 (&values)[N][W]) {
  for (auto& row : values) {
    for (F32& value : row) value = zero_f32();
  }
}

template <int N, int W>
[[gnu::always_inline]] inline void store_all(const F32 (&results)[N][W], float* y) {
  for (int n = 0; n < N; ++n) {
    for (int t = 0; t < W; ++t) store(y + (n * W + t) * kLanes, results[n][t]);
  }
}

template <Packing p, int W, int N>
void small_blocks(const void* const* panels, int64_t columns, QuantisedTile x, float* y) {
  F32 results[N][W];
  clear(results);
  const uint8_t* pairs[N];
  for (int n = 0; n < N; ++n) pairs[n] = static_cast<const uint8_t*>(panels[n]);
  for (int64_t left = columns / kChunk; left > 0; left -= 2) {
    const uint8_t* chunks[N];
    for (int n = 0; n < N; ++n) {
      prefetch_ahead<pair_bytes(p)>(pairs[n]);
      chunks[n] = pairs[n] + header_bytes(p, left);
    }
    for (int64_t c = 0; c < (left > 1 ? 2 : 1); ++c) {
      I32 dots[N][W];
      start(dots, x.sums, dot_zero(p) == 0);
      dot_vectors<p, 0, 8>(dots, chunks, x.codes);
      for (int n = 0; n < N; ++n) {
        const uint8_t* header = pairs[n] + c * header_step(p);
        const F32 scale = load_half(header);
        for (int t = 0; t < W; ++t) results[n][t] = fma(to_f32(dots[n][t]), scale * splat(x.scales[t]), results[n][t]);
        if constexpr (p.minimum) {
          const F32 minimum = load_half(header + 32);
          for (int t = 0; t < W; ++t) results[n][t] = fma(minimum, splat_bits(x.sums + t), results[n][t]);
        }
        chunks[n] += chunk_bytes(p);
      }
      x.codes += kChunk * W;
      x.scales += W;
      x.sums += W;
    }
    for (int n = 0; n < N; ++n) pairs[n] += pair_bytes(p);
  }
  store_all(results, y);
}

template <Packing p, int W, int N>
void super_blocks(const void* const* panels, int64_t columns, QuantisedTile x, float* y) {
  constexpr int kGroups = kChunk / p.group;  // of a chunk
  F32 results[N][W];
  clear(results);
  const uint8_t* blocks[N];
  for (int n = 0; n < N; ++n) blocks[n] = static_cast<const uint8_t*>(panels[n]);
  for (int64_t left = columns; left > 0; left -= 256) {
    F32 scaled[N][W], lowered[N][W];
    clear(scaled);
    clear(lowered);
    for (int c = 0; c < 8; ++c) {
      const uint8_t* chunks[N];
      for (int n = 0; n < N; ++n) {
        prefetch_ahead<block_bytes(p) / 8>(blocks[n] + c * block_bytes(p) / 8);
        chunks[n] = blocks[n] + c * chunk_bytes(p);
      }
      I32 whole[N][W];
      unroll<kGroups>([&](auto g) {
        constexpr int kVectors = 8 / kGroups;
        I32 dots[N][W];
        start(dots, x.sums + g * W, dot_zero(p) == 0);
        dot_vectors<p, g * kVectors, kVectors>(dots, chunks, x.codes);
        const int64_t at = (c * kGroups + g) * kPanelRows;
        for (int n = 0; n < N; ++n) {
          const I32 sub_scale = load_i8(reinterpret_cast<const int8_t*>(blocks[n] + sub_scales_at(p) + at));
          for (int t = 0; t < W; ++t) {
            const I32 product = dots[n][t] * sub_scale;
            whole[n][t] = g == 0 ? product : whole[n][t] + product;
          }
          if constexpr (p.minimum) {
            const F32 sub_minimum = to_f32(load_u8(blocks[n] + sub_minimums_at(p) + at));
            for (int t = 0; t < W; ++t) lowered[n][t] = fma(sub_minimum, splat_bits(x.sums + g * W + t), lowered[n][t]);
          }
        }
      });
      for (int n = 0; n < N; ++n) {
        for (int t = 0; t < W; ++t) scaled[n][t] = fma(to_f32(whole[n][t]), splat(x.scales[t]), scaled[n][t]);
      }
      x.codes += kChunk * W;
      x.scales += W;
      x.sums += kGroups * W;
    }
    for (int n = 0; n < N; ++n) {
      const F32 scale = load(reinterpret_cast<const float*>(blocks[n] + scale_at(p)));
      for (int t = 0; t < W; ++t) results[n][t] = fma(scale, scaled[n][t], results[n][t]);
      if constexpr (p.minimum) {
        const F32 minimum = load(reinterpret_cast<const float*>(blocks[n] + minimum_at(p)));
        for (int t = 0; t < W; ++t) results[n][t] = fma(minimum, lowered[n][t], results[n][t]);
      }
      blocks[n] += block_bytes(p);
    }
  }
  store_all(results, y);
}

template <DType dtype, int W, int N>
void dot(const void* const* panels, int64_t columns, const QuantisedTile& x, float* y) {
  constexpr Packing p = packing_of(dtype);
  if constexpr (p.sub_scales) return super_blocks<p, W, N>(panels, columns, x, y);
  return small_blocks<p, W, N>(panels, columns, x, y);
}

}  // namespace

FewQuantised few_quantised(DType dtype, int width, int panels) {
  return dispatch_quantised(dtype, [&]<DType type>() -> FewQuantised {
    static constexpr FewQuantised kWidths[] = {dot<type, 1, 1>, dot<type, 2, 1>, dot<type, 3, 1>, dot<type, 4, 1>};
    if (panels == 2) return width == 1 ? dot<type, 1, 2> : nullptr;
    return kWidths[width - 1];
  });
}

}  // namespace gabbro::cpu::GABBRO_ISA
