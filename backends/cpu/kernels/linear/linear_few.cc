// Quantized weights, one to four tokens: the packed panel is streamed once, and this should be bound by memory.
#include <bit>

#include "backends/cpu/kernels/linear/linear_dot.h"
#include "backends/cpu/kernels/linear/linear_e4m3.h"
#include "backends/cpu/pack/codes.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <int W>
[[gnu::always_inline]] inline void start(I32 (&dots)[W], const int32_t* sums, bool zero) {
  for (int t = 0; t < W; ++t) dots[t] = zero ? zero_i32() : splat_i32(sums[t]);
}

// dots += levels · x for vectors first to first + count - 1 of a chunk.
template <Packing p, int first, int count, int W>
[[gnu::always_inline]] inline void dot_vectors(I32 (&dots)[W], const uint8_t* chunk, const int16_t* x) {
  unroll<count>([&](auto i) {
    constexpr int q = first + i;
    const LevelWords levels = level_words<p, q>(chunk);
    for (int t = 0; t < W; ++t) dots[t] = dot2(dots[t], levels.even, splat_pair(x + (2 * q * W + t) * 2));
    for (int t = 0; t < W; ++t) dots[t] = dot2(dots[t], levels.odd, splat_pair(x + ((2 * q + 1) * W + t) * 2));
  });
}

// The products of a chunk without sub-scales.
template <Packing p, int W>
[[gnu::always_inline]] inline void dot_chunk(F32 (&dots)[W], const uint8_t* chunk, const WordTile& x) {
  if constexpr (p.e4m3) {
    const uint8_t* const panels[] = {chunk};
    F32 sums[1][W];
    dot_e4m3<W>(sums, panels, 0, x.codes);
    for (int t = 0; t < W; ++t) dots[t] = sums[0][t];
  } else {
    I32 sums[W];
    start(sums, x.sums, p.zero == 0);
    dot_vectors<p, 0, 8>(sums, chunk, x.codes);
    for (int t = 0; t < W; ++t) dots[t] = to_f32(sums[t]);
  }
}

inline F32 splat_bits(const int32_t* bits) { return splat(std::bit_cast<float>(*bits)); }

template <Packing p, int W>
void small_blocks(const uint8_t* pair, int64_t columns, WordTile x, float* y) {
  F32 results[W];
  for (F32& result : results) result = zero_f32();
  for (int64_t left = columns / kChunk; left > 0; left -= 2) {
    prefetch_ahead<pair_bytes(p), kPrefetchCodes>(pair);
    const uint8_t* header = pair;
    const uint8_t* chunk = pair + header_bytes(p, left);
    for (int64_t c = 0; c < (left > 1 ? 2 : 1); ++c) {
      F32 dots[W];
      dot_chunk<p>(dots, chunk, x);
      const F32 scale = load_scale<p>(header);
      for (int t = 0; t < W; ++t) results[t] = fma(dots[t], scale * splat(x.scales[t]), results[t]);
      if constexpr (p.minimum) {
        const F32 minimum = load_minimum<p>(header, scale);
        for (int t = 0; t < W; ++t) results[t] = fma(minimum, splat_bits(x.sums + t), results[t]);
      }
      header += header_step(p);
      chunk += chunk_bytes(p);
      x.codes += kChunk * W;
      x.scales += W;
      x.sums += W;
    }
    pair += pair_bytes(p);
  }
  for (int t = 0; t < W; ++t) store(y + t * kLanes, results[t]);
}

template <Packing p, int W>
void super_blocks(const uint8_t* block, int64_t columns, WordTile x, float* y) {
  constexpr int kGroups = kChunk / p.group;  // of a chunk
  F32 results[W];
  for (F32& result : results) result = zero_f32();
  for (int64_t left = columns; left > 0; left -= 256) {
    F32 scaled[W], lowered[W];
    for (int t = 0; t < W; ++t) scaled[t] = lowered[t] = zero_f32();
    for (int c = 0; c < 8; ++c) {
      prefetch_ahead<block_bytes(p) / 8, kPrefetchCodes>(block + c * block_bytes(p) / 8);
      I32 whole[W];
      unroll<kGroups>([&](auto g) {
        constexpr int kVectors = 8 / kGroups;
        I32 dots[W];
        start(dots, x.sums + g * W, p.zero == 0);
        dot_vectors<p, g * kVectors, kVectors>(dots, block + c * chunk_bytes(p), x.codes);
        const int64_t at = (c * kGroups + g) * kPanelRows;
        const I32 sub_scale = load_i8(reinterpret_cast<const int8_t*>(block + sub_scales_at(p) + at));
        for (int t = 0; t < W; ++t) whole[t] = g == 0 ? dots[t] * sub_scale : whole[t] + dots[t] * sub_scale;
        if constexpr (p.minimum) {
          const F32 sub_minimum = to_f32(load_u8(block + sub_minimums_at(p) + at));
          for (int t = 0; t < W; ++t) lowered[t] = fma(sub_minimum, splat_bits(x.sums + g * W + t), lowered[t]);
        }
      });
      for (int t = 0; t < W; ++t) scaled[t] = fma(to_f32(whole[t]), splat(x.scales[t]), scaled[t]);
      x.codes += kChunk * W;
      x.scales += W;
      x.sums += kGroups * W;
    }
    const F32 scale = load(reinterpret_cast<const float*>(block + scale_at(p)));
    for (int t = 0; t < W; ++t) results[t] = fma(scale, scaled[t], results[t]);
    if constexpr (p.minimum) {
      const F32 minimum = load(reinterpret_cast<const float*>(block + minimum_at(p)));
      for (int t = 0; t < W; ++t) results[t] = fma(minimum, lowered[t], results[t]);
    }
    block += block_bytes(p);
  }
  for (int t = 0; t < W; ++t) store(y + t * kLanes, results[t]);
}

template <Packing p, int W>
void dot(const void* panel, int64_t columns, const WordTile& x, float* y) {
  const auto* bytes = static_cast<const uint8_t*>(panel);
  if constexpr (p.sub_scales) return super_blocks<p, W>(bytes, columns, x, y);
  return small_blocks<p, W>(bytes, columns, x, y);
}

}  // namespace

FewQuantized few_quantized(DType dtype, int width) {
  return dispatch_packing(dtype, [&]<Packing p>() -> FewQuantized {
    static constexpr FewQuantized kWidths[] = {dot<p, 1>, dot<p, 2>, dot<p, 3>, dot<p, 4>};
    return kWidths[width - 1];
  });
}

}  // namespace gabbro::cpu::GABBRO_ISA
