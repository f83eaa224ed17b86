// Quantised weights, many tokens: 16 rows × up to 12 tokens of integer dot products in registers.
#include <bit>

#include "backends/cpu/kernels/linear_dot.h"
#include "backends/cpu/pack/codes.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <DType dtype>
void unpack(const void* panel, int64_t columns, const UnpackedPanel& out) {
  constexpr Packing p = packing_of(dtype);
  constexpr int kGroups = kChunk / p.group;
  const auto* bytes = static_cast<const uint8_t*>(panel);
  for (int64_t chunk = 0; chunk < columns / kChunk; ++chunk) {
    const uint8_t* block = bytes + chunk / 8 * block_bytes(p);  // where there are sub-scales
    const uint8_t* codes =
        p.sub_scales ? block + chunk % 8 * chunk_bytes(p) : bytes + small_codes_at(p, chunk, columns);
    unroll<8>([&](auto q) { store_bytes(out.codes + (chunk * 8 + q) * 64, level_vector<p, q>(codes)); });
    for (int g = 0; g < kGroups; ++g) {
      const int64_t to = (chunk * kGroups + g) * kPanelRows;
      if constexpr (p.sub_scales) {
        const int64_t at = (chunk % 8 * kGroups + g) * kPanelRows;
        const F32 scale = load(reinterpret_cast<const float*>(block + scale_at(p)));
        const I32 sub_scale = load_i8(reinterpret_cast<const int8_t*>(block + sub_scales_at(p) + at));
        store(out.scales + to, scale * to_f32(sub_scale));
        if constexpr (p.minimum) {
          const F32 minimum = load(reinterpret_cast<const float*>(block + minimum_at(p)));
          store(out.minimums + to, minimum * to_f32(load_u8(block + sub_minimums_at(p) + at)));
        }
      } else {
        store(out.scales + to, load_half(bytes + small_scale_at(p, chunk)));
        if constexpr (p.minimum) store(out.minimums + to, load_half(bytes + small_scale_at(p, chunk) + 32));
      }
    }
  }
}

// A format is known here by its group, whether it has a minimum, whether its zero is not 0, and whether it is wide.
// Tokens `first` and on of a tile that is W wide.
template <int group, bool minimum, bool zero, bool wide, int W, int kTokens>
void block(const UnpackedPanel& panel, int64_t columns, const QuantisedTile& tile, int first, float* y) {
  constexpr int kVectors = group / 4;
  F32 results[kTokens];
  for (F32& result : results) result = zero_f32();
  const uint8_t* codes = panel.codes;
  const int8_t* x = tile.codes + first * 4;
  for (int64_t g = 0; g < columns / group; ++g) {
    const int32_t* sums = tile.sums + g * W + first;
    I32 dots[kTokens];
    for (int t = 0; t < kTokens; ++t) dots[t] = zero ? splat_i32(sums[t]) : zero_i32();
    unroll<kVectors>([&](auto q) {
      const Bytes levels = load_bytes(codes + q * 64);
      unroll<kTokens>([&](auto t) {
        const Four four = splat_four(x + (q * W + t) * 4);
        dots[t] = wide ? dot4_wide(dots[t], levels, four) : dot4(dots[t], levels, four);
      });
    });
    codes += kVectors * 64;
    x += kVectors * W * 4;
    const float* x_scales = tile.scales + g * group / kChunk * W + first;
    const F32 scale = load(panel.scales + g * kPanelRows);
    unroll<kTokens>([&](auto t) { results[t] = fma(to_f32(dots[t]) * splat(x_scales[t]), scale, results[t]); });
    if constexpr (minimum) {
      const F32 lowest = load(panel.minimums + g * kPanelRows);
      unroll<kTokens>([&](auto t) { results[t] = fma(lowest, splat(std::bit_cast<float>(sums[t])), results[t]); });
    }
  }
  for (int t = 0; t < kTokens; ++t) store(y + (first + t) * kLanes, results[t]);
}

template <int group, bool minimum, bool zero, bool wide, int W>
void dot(const UnpackedPanel& panel, int64_t columns, const QuantisedTile& tile, float* y) {
  constexpr int kTokens = tokens_at_once(W, kByteSums);
  for (int first = 0; first < W; first += kTokens) {
    block<group, minimum, zero, wide, W, kTokens>(panel, columns, tile, first, y);
  }
}

template <DType dtype, int W>
constexpr ManyQuantised dot_of() {
  constexpr Packing p = packing_of(dtype);
  return dot<p.group, p.minimum, dot_zero(p) != 0, is_wide(p), W>;
}

int64_t code_bytes(DType dtype, int64_t columns) { return columns * kPanelRows * (is_quantised(dtype) ? 1 : 2); }

int64_t scale_bytes(DType dtype, int64_t columns) {
  const int64_t group = is_quantised(dtype) ? packing_of(dtype).group : kChunk;
  return aligned(columns / group * kPanelRows * 4);
}

}  // namespace

int64_t UnpackedPanel::bytes(DType dtype, int64_t columns) {
  return code_bytes(dtype, columns) + (packing_of(dtype).minimum ? 2 : 1) * scale_bytes(dtype, columns);
}

UnpackedPanel UnpackedPanel::at(char* memory, DType dtype, int64_t columns) {
  char* scales = memory + code_bytes(dtype, columns);
  char* minimums = scales + scale_bytes(dtype, columns);
  return {reinterpret_cast<uint8_t*>(memory), reinterpret_cast<float*>(scales), reinterpret_cast<float*>(minimums)};
}

Unpack unpack_function(DType dtype) {
  return dispatch_quantised(dtype, []<DType type>() -> Unpack { return unpack<type>; });
}

ManyQuantised many_quantised(DType dtype, int width) {
  return dispatch_quantised(dtype, [&]<DType type>() -> ManyQuantised {
    return width == 12 ? dot_of<type, 12>() : width == 8 ? dot_of<type, 8>() : dot_of<type, 4>();
  });
}

}  // namespace gabbro::cpu::GABBRO_ISA
