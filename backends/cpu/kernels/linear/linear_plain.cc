// f32, f16 and bf16 weights: they are widened in registers, and multiplied and summed in f32.
#include <algorithm>
#include <cstring>
#include <utility>

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

// One or two tokens, as W says.
template <DType dtype, int W>
void few(const PlainRows& rows, const float* x, int, float* y) {
  constexpr int kStreams = W == 1 ? kFewPanels : kFewPanels / 2;
  int panel = 0;
  for (; (panel + kStreams) * kPanelRows <= rows.count; panel += kStreams) {
    stream_panels<dtype, W, kStreams>(rows, panel, x, y);
  }
  for (; panel * kPanelRows < rows.count; ++panel) stream_panels<dtype, W, 1>(rows, panel, x, y);
}

// More tokens: rows and tokens whose sums fit in the registers, so that an element that was loaded serves several.
constexpr int kRowsAtOnce = kTileVectors == 2 ? 4 : 1, kTokensAtOnce = kTileVectors == 2 ? 6 : 4;

struct NeighborRows {
  const std::byte* first;
  int64_t step, columns;
  int64_t ahead;  // bytes to the rows that come next: the processor's own prefetcher does not follow several rows
};

// sums += a vector of each row times a vector of each token.
template <int kRows, int kTokens, class Weights, class Values>
[[gnu::always_inline]] inline void add_products(F32 (&sums)[kRows][kTokens], const Weights& weights,
                                                const Values& values) {
  F32 w[kRows];
  unroll<kRows>([&](auto r) { w[r] = weights(r); });
  unroll<kTokens>([&](auto t) {
    const F32 value = values(t);
    unroll<kRows>([&](auto r) { sums[r][t] = fma(w[r], value, sums[r][t]); });
  });
}

// kRows neighboring rows with kTokens tokens. Each sum has the order of additions of stream_panels. y: [kTokens][16],
// at the first row.
template <DType dtype, int kRows, int kTokens>
void row_tile(const NeighborRows& rows, const float* x, float* y) {
  constexpr int kBytes = dtype_info(dtype).block_bytes;
  constexpr int kStep = 2 * kLanes;
  const int64_t columns = rows.columns;
  F32 sums[kRows][kTokens];
  for (auto& row : sums)
    for (F32& sum : row) sum = zero_f32();
  int64_t k = 0;
  for (; k + kStep <= columns; k += kStep) {
    const std::byte* const at = rows.first + k * kBytes;
    unroll<kRows>([&](auto r) { prefetch_ahead<kStep * kBytes, 0>(at + r * rows.step + rows.ahead); });
    unroll<kStep / kLanes>([&](auto i) {
      add_products(
          sums, [&](int r) { return load_weights<dtype>(at + r * rows.step + i * kLanes * kBytes); },
          [&](int t) { return load(x + t * columns + k + i * kLanes); });
    });
  }
  for (; k < columns; k += kLanes) {
    const auto count = static_cast<int>(std::min<int64_t>(kLanes, columns - k));
    add_products(
        sums, [&](int r) { return load_first_weights<dtype>(rows.first + r * rows.step + k * kBytes, count); },
        [&](int t) { return load_first(x + t * columns + k, count); });
  }
  for (int r = 0; r < kRows; ++r) {
    for (int t = 0; t < kTokens; ++t) y[t * kPanelRows + r] = reduce_sum(sums[r][t]);
  }
}

using RowTile = void (*)(const NeighborRows& rows, const float* x, float* y);

template <DType dtype, int kRows, int... kTokens>
RowTile row_tile_of(int tokens, std::integer_sequence<int, kTokens...>) {
  static constexpr RowTile kTiles[] = {row_tile<dtype, kRows, kTokens + 1>...};
  return kTiles[tokens - 1];
}

// Up to kSmallBatch tokens, in parts of equal size.
template <DType dtype>
void small_batch_rows(const PlainRows& rows, const float* x, int width, float* y) {
  constexpr auto kCounts = std::make_integer_sequence<int, kTokensAtOnce>();
  const int parts = (width + kTokensAtOnce - 1) / kTokensAtOnce;
  const int64_t ahead = std::max(kRowsAtOnce * rows.step, kPrefetchElements * dtype_info(dtype).block_bytes);
  const auto run = [&](int row, auto tile_of) {
    for (int part = 0; part < parts; ++part) {
      const int first = part * width / parts, tokens = (part + 1) * width / parts - first;
      tile_of(tokens)({.first = rows.first + row * rows.step,
                       .step = rows.step,
                       .columns = rows.columns,
                       .ahead = part == 0 ? ahead : 0},
                      x + first * rows.columns, y + (row / kPanelRows * width + first) * kPanelRows + row % kPanelRows);
    }
  };
  int row = 0;
  for (; row + kRowsAtOnce <= rows.count; row += kRowsAtOnce)
    run(row, [&](int tokens) { return row_tile_of<dtype, kRowsAtOnce>(tokens, kCounts); });
  for (; row < rows.count; ++row) run(row, [&](int tokens) { return row_tile_of<dtype, 1>(tokens, kCounts); });
  for (; row % kPanelRows != 0; ++row) {
    for (int t = 0; t < width; ++t) y[(row / kPanelRows * width + t) * kPanelRows + row % kPanelRows] = 0;
  }
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
    return width == 1 ? few<type, 1> : width == 2 ? few<type, 2> : small_batch_rows<type>;
  });
}

ManyPlain many_plain(DType dtype, int width, int count) {
  return dispatch_plain(dtype, [&]<DType type>() -> ManyPlain {
    return width == 12 ? many_of<type, 12>(count) : width == 8 ? many_of<type, 8>(count) : many_of<type, 4>(count);
  });
}

}  // namespace gabbro::cpu::GABBRO_ISA
