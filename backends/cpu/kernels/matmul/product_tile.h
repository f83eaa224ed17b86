// The register tile of the f32 matrix products (attention, matmul): rows of A, broadcast element by element, times
// vectors of B. B comes from a Source, at(step, j) being vector j of row `step`, so that it may be converted on the
// way.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "backends/cpu/simd/simd.h"

namespace gabbro::cpu::GABBRO_ISA {

// Accumulators that fit in the registers next to the operands.
inline constexpr int kTileSums = kFloatTokens * kTileVectors;
inline constexpr int kTileRows = kFloatTokens;

// Adjacent vectors of B for `rows` rows: with few rows more of them, to have enough sums in flight (a fused
// multiply-add takes 4 cycles, and one or two start in each).
constexpr int tile_vectors(int rows) { return rows * 4 <= kTileSums ? 4 : rows * 2 <= kTileSums ? 2 : 1; }

// B as plain floats.
struct FloatSource {
  const float* data;
  int64_t stride;
  F32 at(int64_t step, int j) const { return load(data + step * stride + j * kLanes); }
};

struct ProductTile {
  const float* a;  // [rows][steps], with strides
  int64_t row_stride;
  int64_t step_stride;
  float* out;  // [rows][vectors · 16]
  int64_t out_stride;
  bool accumulate;  // add to `out`
};

// For rows that pack_rows() has packed. Known strides save the registers of twelve addresses.
struct PackedTile {
  const float* a;
  static constexpr int64_t row_stride = 1;
  static constexpr int64_t step_stride = kMatrixRows;
  float* out;
  int64_t out_stride;
  bool accumulate;
};

// Steps that one running sum covers: the rounding error of a sum grows with its number of terms, that of sums of blocks
// with the block's and the number of blocks.
inline constexpr int64_t kSumSteps = 256;

// Steps `begin` to `end`; with `accumulate` their sum is added to the value there.
template <int kRows, int kVectors, class Tile, class Source>
void product_tile(const Tile& tile, const Source& b, int64_t begin, int64_t end) {
  F32 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sum[r][j] = zero_f32();
  }
  const int64_t row_stride = tile.row_stride;
  const float* a = tile.a + begin * tile.step_stride;
  for (int64_t step = begin; step < end; ++step, a += tile.step_stride) {
    F32 vectors[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) vectors[j] = b.at(step, j);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const F32 factor = splat(a[r * row_stride]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[r][j] = fma(factor, vectors[j], sum[r][j]);
    }
  }
  const auto store_sums = [&](auto adds) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        float* out = tile.out + r * tile.out_stride + j * kLanes;
        store(out, adds ? load(out) + sum[r][j] : sum[r][j]);
      }
    }
  };
  if (tile.accumulate) {
    store_sums(std::true_type());
  } else {
    store_sums(std::false_type());
  }
}

// `rows` (1 to kMatrixRows) rows times `vectors` (at most tile_vectors(rows)) vectors.
template <class Tile, class Source>
void product_tile(int rows, int vectors, const Tile& tile, const Source& b, int64_t begin, int64_t end) {
  const auto with_rows = [&]<int kRows>() {
    if (rows != kRows) return;
    constexpr int kMost = tile_vectors(kRows);
    const auto with_vectors = [&]<int kVectors>() {
      if constexpr (kVectors <= kMost) {
        if (vectors == kVectors) product_tile<kRows, kVectors>(tile, b, begin, end);
      }
    };
    with_vectors.template operator()<1>();
    with_vectors.template operator()<2>();
    with_vectors.template operator()<3>();
    with_vectors.template operator()<4>();
  };
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) { (with_rows.template operator()<kIndex + 1>(), ...); }
  (std::make_integer_sequence<int, kMatrixRows>{});
  static_assert(kMatrixRows >= kTileRows);
}

}  // namespace gabbro::cpu::GABBRO_ISA
