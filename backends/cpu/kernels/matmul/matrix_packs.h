// Packing of the factors of an f32 GEMM for its register tile (product_tile.h): elements in the order in which the tile
// reads them, for any strides. Rows of one matrix that are a power of two apart would share the sets of the caches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/common/primitives.h"
#include "backends/cpu/kernels/matmul/product_tile.h"
#include "src/base/round_up.h"

namespace gabbro::cpu::GABBRO_ISA {

inline constexpr int64_t kPanel = kTileVectors * kLanes;  // columns of a panel of B

// Elements that packing whole eights of columns may write past the last row.
inline constexpr int64_t kPackSlack = 16;

constexpr int64_t packed_rows_floats(int64_t rows, int64_t depth) {
  return round_up(rows, kMatrixRows) * depth + kPackSlack;
}
constexpr int64_t packed_columns_floats(int64_t columns, int64_t depth) { return round_up(columns, kPanel) * depth; }

// At most kMatrixRows rows of A [rows, columns]: to [columns][kMatrixRows]; absent rows are left unchanged.
inline void pack_row_tile(const abi::MatrixView& a, const float* from, float* to) {
  const auto rows = static_cast<int>(a.rows);
  int64_t k = 0;
  if (a.column_stride == 1) {
    for (; k + 8 <= a.columns; k += 8) {
      // The last eight first: what they write too much of a column is the first of the next.
      for (int r = (rows - 1) / 8 * 8; r >= 0; r -= 8) {
        transpose_eights(from + r * a.row_stride + k, a.row_stride, std::min(8, rows - r), to + k * kMatrixRows + r,
                         kMatrixRows);
      }
    }
  }
  for (; k < a.columns; ++k) {
    for (int r = 0; r < rows; ++r) to[k * kMatrixRows + r] = from[r * a.row_stride + k * a.column_stride];
  }
}

// to: [tiles of kMatrixRows rows][columns][kMatrixRows], packed_rows_floats().
inline void pack_rows(const abi::MatrixView& a, const float* from, float* to) {
  for (int64_t r = 0; r < a.rows; r += kMatrixRows, to += kMatrixRows * a.columns) {
    const int64_t rows = std::min<int64_t>(kMatrixRows, a.rows - r);
    pack_row_tile({rows, a.columns, a.row_stride, a.column_stride}, from + r * a.row_stride, to);
  }
}

// At most kPanel columns of B [rows, columns]: to [rows][kPanel], filled up with zeros.
inline void pack_panel(const abi::MatrixView& b, const float* from, float* to) {
  int64_t k = 0;
  if (b.columns < kPanel) std::fill_n(to, b.rows * kPanel, 0.0f);
  if (b.row_stride == 1 && b.columns == kPanel) {
    for (; k + 8 <= b.rows; k += 8) {
      for (int64_t j = 0; j < kPanel; j += 8) {
        transpose_eights(from + k + j * b.column_stride, b.column_stride, 8, to + k * kPanel + j, kPanel);
      }
    }
  }
  for (; k < b.rows; ++k) {
    for (int64_t j = 0; j < b.columns; ++j) to[k * kPanel + j] = from[k * b.row_stride + j * b.column_stride];
  }
}

// to: [panels of kPanel columns][rows][kPanel], packed_columns_floats().
inline void pack_columns(const abi::MatrixView& b, const float* from, float* to) {
  const int64_t whole = b.column_stride == 1 ? b.columns / kPanel * kPanel : 0;
  for (int64_t k = 0; k < b.rows && whole > 0; ++k) {  // along the rows, as memory has them
    for (int64_t j = 0; j < whole; j += kLanes) {
      store(to + j / kPanel * kPanel * b.rows + k * kPanel + j % kPanel, load(from + k * b.row_stride + j));
    }
  }
  for (int64_t j = whole; j < b.columns; j += kPanel) {
    const int64_t columns = std::min(kPanel, b.columns - j);
    pack_panel({b.rows, columns, b.row_stride, b.column_stride}, from + j * b.column_stride, to + j * b.rows);
  }
}

// Neighboring panels of these as B.
struct PanelSource {
  const float* data;
  int64_t rows;
  F32 at(int64_t step, int j) const {
    return load(data + j / kTileVectors * kPanel * rows + step * kPanel + j % kTileVectors * kLanes);
  }
};

// Rows of A, in tiles that are `tile_step` elements apart, from `block` on, times whole vectors of
// columns; source_at(j) is B from column j on. The remaining rows take wider tiles. Sums are of blocks of K.
template <class Tile, class SourceAt>
void product_block(const Tile& block, int64_t tile_step, int64_t rows, int64_t columns, int64_t depth,
                   const SourceAt& source_at) {
  const auto multiply = [&](int count, int vectors, int64_t r, int64_t j, const auto& source) {
    Tile tile = block;
    tile.a += r / kMatrixRows * tile_step;
    tile.out += r * block.out_stride + j;
    int64_t k = 0;
    do {
      product_tile(count, vectors, tile, source, k, std::min(depth, k + kSumSteps));
      tile.accumulate = true;
    } while ((k += kSumSteps) < depth);
  };
  const int64_t whole = rows / kMatrixRows * kMatrixRows;
  for (int64_t j = 0; j < columns && whole > 0; j += kPanel) {
    const auto source = source_at(j);
    const auto vectors = static_cast<int>(std::min<int64_t>(kTileVectors, (columns - j) / kLanes));
    for (int64_t r = 0; r < whole; r += kMatrixRows) multiply(kMatrixRows, vectors, r, j, source);
  }
  const auto left = static_cast<int>(rows - whole);
  for (int64_t j = 0, vectors = 0; j < columns && left > 0; j += vectors * kLanes) {
    vectors = std::min<int64_t>(tile_vectors(left), (columns - j) / kLanes);
    if (vectors > kTileVectors) vectors -= vectors % kTileVectors;  // whole panels, but for the last
    multiply(left, static_cast<int>(vectors), whole, j, source_at(j));
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
