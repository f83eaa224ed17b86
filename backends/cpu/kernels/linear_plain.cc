// f32, f16 and bf16 weights: they are widened in registers, and multiplied and summed in f32.
#include "backends/cpu/kernels/linear_dot.h"
#include "backends/cpu/pack/codes.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <DType dtype>
[[gnu::always_inline]] inline F32 load_weights(const char* panel, int64_t k) {
  if constexpr (dtype == DType::f32) return load(reinterpret_cast<const float*>(panel + k * 64));
  if constexpr (dtype == DType::f16) return load_half(panel + k * 32);
  if constexpr (dtype == DType::bf16) return load_bfloat(panel + k * 32);
}

// One to four tokens. Four sums per token, over k mod 4: one would wait for its own multiply-add.
template <DType dtype, int W>
void few(const void* panel, int64_t columns, const float* x, float* y) {
  constexpr int kSums = 4;
  const auto* weights = static_cast<const char*>(panel);
  F32 sums[kSums][W];
  for (auto& row : sums) {
    for (F32& sum : row) sum = zero_f32();
  }
  int64_t k = 0;
  constexpr int kVectorBytes = kPanelRows * dtype_info(dtype).block_bytes;
  for (; k + kSums <= columns; k += kSums) {
    prefetch_ahead<kSums * kVectorBytes, kPrefetchElements>(weights + k * kVectorBytes);
    unroll<kSums>([&](auto i) {
      const F32 w = load_weights<dtype>(weights, k + i);
      for (int t = 0; t < W; ++t) sums[i][t] = fma(w, splat(x[(k + i) * W + t]), sums[i][t]);
    });
  }
  for (; k < columns; ++k) {
    const F32 w = load_weights<dtype>(weights, k);
    for (int t = 0; t < W; ++t) sums[0][t] = fma(w, splat(x[k * W + t]), sums[0][t]);
  }
  for (int t = 0; t < W; ++t) store(y + t * kLanes, (sums[0][t] + sums[1][t]) + (sums[2][t] + sums[3][t]));
}

template <DType dtype, int W, int kPanels>
void many(const void* const* panels, int64_t columns, const float* x, float* y) {
  const char* weights[kPanels];
  F32 sums[kPanels][W];
  for (int p = 0; p < kPanels; ++p) {
    weights[p] = static_cast<const char*>(panels[p]);
    for (F32& sum : sums[p]) sum = zero_f32();
  }
  for (int64_t k = 0; k < columns; ++k) {
    F32 w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = load_weights<dtype>(weights[p], k);
    unroll<W>([&](auto t) {
      const F32 value = splat(x[k * W + t]);
      for (int p = 0; p < kPanels; ++p) sums[p][t] = fma(w[p], value, sums[p][t]);
    });
  }
  for (int p = 0; p < kPanels; ++p) {
    for (int t = 0; t < W; ++t) store(y + (p * W + t) * kLanes, sums[p][t]);
  }
}

template <class Function>
auto dispatch_plain(DType dtype, Function&& function) {
  if (dtype == DType::f16) return function.template operator()<DType::f16>();
  if (dtype == DType::bf16) return function.template operator()<DType::bf16>();
  return function.template operator()<DType::f32>();
}

template <DType dtype, int W>
ManyPlain many_of(int count) {
  return count == 2 ? many<dtype, W, 2> : many<dtype, W, 1>;
}

}  // namespace

FewPlain few_plain(DType dtype, int width) {
  return dispatch_plain(dtype, [&]<DType type>() -> FewPlain {
    static constexpr FewPlain kWidths[] = {few<type, 1>, few<type, 2>, few<type, 3>, few<type, 4>};
    return kWidths[width - 1];
  });
}

ManyPlain many_plain(DType dtype, int width, int count) {
  return dispatch_plain(dtype, [&]<DType type>() -> ManyPlain {
    if constexpr (kTileTokens > 8) {
      if (width == 12) return many_of<type, 12>(count);
    }
    if constexpr (kTileTokens > 4) {
      if (width == 8) return many_of<type, 8>(count);
    }
    return many_of<type, 4>(count);
  });
}

}  // namespace gabbro::cpu::GABBRO_ISA
