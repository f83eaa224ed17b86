// f32, f16 and bf16 weights: they are widened in registers, and multiplied and summed in f32.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/linear/linear_dot.h"
#include "backends/cpu/kernels/matmul/product_tile.h"
#include "backends/cpu/pack/codes.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

template <DType dtype>
[[gnu::always_inline]] inline F32 load_weights(const std::byte* from) {
  if constexpr (dtype == DType::f32) return load(reinterpret_cast<const float*>(from));
  if constexpr (dtype == DType::f16) return load_half(from);
  if constexpr (dtype == DType::bf16) return load_bfloat(from);
}

// Fewer than 16 consecutive elements, and zeros.
template <DType dtype>
inline F32 load_first_weights(const std::byte* from, int count) {
  alignas(64) std::byte elements[kLanes * 4] = {};
  std::memcpy(elements, from, static_cast<size_t>(count) * dtype_info(dtype).block_bytes);
  return load_weights<dtype>(elements);
}

// kStreams panels side by side, row by row, with W tokens. A row has one sum whatever kStreams is: which panels meet is
// a matter of threads and of time, and must not change a bit.
template <DType dtype, int W, int kStreams>
void stream_panels(const PlainRows& rows, int first_panel, const float* x, float* y) {
  constexpr int kBytes = dtype_info(dtype).block_bytes;
  constexpr int kStep = 2 * kLanes;  // a cache line or two of each
  const int64_t columns = rows.columns;
  const int used = std::min(kPanelRows, rows.count - first_panel * kPanelRows);  // with several panels, all
  for (int row = 0; row < used; ++row) {
    const std::byte* weights[kStreams];
    F32 sums[kStreams][W];
    for (int s = 0; s < kStreams; ++s) {
      weights[s] = rows.first + ((first_panel + s) * kPanelRows + row) * rows.step;
      for (F32& sum : sums[s]) sum = zero_f32();
    }
    int64_t k = 0;
    for (; k + kStep <= columns; k += kStep) {
      unroll<kStreams>([&](auto s) {
        if constexpr (kPrefetchElements > 0) prefetch_ahead<kStep * kBytes, kPrefetchElements>(weights[s] + k * kBytes);
        unroll<kStep / kLanes>([&](auto i) {
          const F32 w = load_weights<dtype>(weights[s] + (k + i * kLanes) * kBytes);
          for (int t = 0; t < W; ++t) sums[s][t] = fma(w, load(x + t * columns + k + i * kLanes), sums[s][t]);
        });
      });
    }
    for (; k < columns; k += kLanes) {
      const int count = static_cast<int>(std::min<int64_t>(kLanes, columns - k));
      for (int s = 0; s < kStreams; ++s) {
        const F32 w = load_first_weights<dtype>(weights[s] + k * kBytes, count);
        for (int t = 0; t < W; ++t) sums[s][t] = fma(w, load_first(x + t * columns + k, count), sums[s][t]);
      }
    }
    for (int s = 0; s < kStreams; ++s) {
      for (int t = 0; t < W; ++t) y[((first_panel + s) * W + t) * kPanelRows + row] = reduce_sum(sums[s][t]);
    }
  }
  for (int t = 0; t < W; ++t) {
    for (int row = used; row < kPanelRows; ++row) y[(first_panel * W + t) * kPanelRows + row] = 0;
  }
}

// One to four tokens.
template <DType dtype, int W>
void few(const PlainRows& rows, const float* x, float* y) {
  constexpr int kStreams = W == 1 ? kFewPanels : W == 2 ? kFewPanels / 2 : 1;
  int panel = 0;
  for (; (panel + kStreams) * kPanelRows <= rows.count; panel += kStreams) {
    stream_panels<dtype, W, kStreams>(rows, panel, x, y);
  }
  for (; panel * kPanelRows < rows.count; ++panel) stream_panels<dtype, W, 1>(rows, panel, x, y);
}

// Tokens `first` and on of a tile that is W wide.
template <DType dtype, int W, int kTokens, int kPanels>
void block(const void* const* panels, int64_t columns, const float* tile, int first, float* y) {
  const float* x = tile + first;
  constexpr int64_t kVectorBytes = kPanelRows * dtype_info(dtype).block_bytes;
  const std::byte* weights[kPanels];
  for (int p = 0; p < kPanels; ++p) weights[p] = static_cast<const std::byte*>(panels[p]);
  int64_t k = 0;
  do {
    const bool first_steps = k == 0;
    F32 sums[kPanels][kTokens];
    for (auto& panel : sums)
      for (F32& sum : panel) sum = zero_f32();
    for (const int64_t last = std::min(columns, k + kSumSteps); k < last; ++k) {
      F32 w[kPanels];
      for (int p = 0; p < kPanels; ++p) w[p] = load_weights<dtype>(weights[p] + k * kVectorBytes);
      unroll<kTokens>([&](auto t) {
        const F32 value = splat(x[k * W + t]);
        for (int p = 0; p < kPanels; ++p) sums[p][t] = fma(w[p], value, sums[p][t]);
      });
    }
    for (int p = 0; p < kPanels; ++p) {
      for (int t = 0; t < kTokens; ++t) {
        float* to = y + (p * W + first + t) * kLanes;
        store(to, first_steps ? sums[p][t] : load(to) + sums[p][t]);
      }
    }
  } while (k < columns);
}

template <DType dtype, int W, int kPanels>
void many(const void* const* panels, int64_t columns, const float* tile, float* y) {
  constexpr int kTogether = std::min(kPanels, kTileVectors), kTokens = tokens_at_once(W, kFloatTokens);
  for (int panel = 0; panel < kPanels; panel += kTogether) {
    for (int first = 0; first < W; first += kTokens) {
      block<dtype, W, kTokens, kTogether>(panels + panel, columns, tile, first, y + panel * W * kLanes);
    }
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
    return width == 12 ? many_of<type, 12>(count) : width == 8 ? many_of<type, 8>(count) : many_of<type, 4>(count);
  });
}

}  // namespace gabbro::cpu::GABBRO_ISA
