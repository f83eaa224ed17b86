// Weights that a GPU converts for a product of its vendor's library.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/round_up.h"

namespace gabbro {

// The numbers of weights that are f16 at a time, in scratch memory: the larger one gives 4096 rows of 28672 columns,
// enough for a product with 1024 tokens to fill a large GPU; the smaller one is taken where memory is short.
inline constexpr int64_t kConvertedWeights = int64_t{128} << 20, kFewConvertedWeights = int64_t{64} << 20;

// Rows of a matrix [rows, columns] that are f16 at a time: slices of about the same length, in multiples of 256 rows,
// without which the libraries have no fast kernel. A row longer than `weights` is converted whole.
constexpr int64_t converted_rows(int64_t rows, int64_t columns, int64_t weights) {
  constexpr int64_t kStep = 256;
  const int64_t most = weights / columns;
  if (rows <= most) return rows;
  if (most < kStep) return std::max<int64_t>(most, 1);
  const int64_t slices = (rows + most - 1) / most;
  return std::min(round_up((rows + slices - 1) / slices, kStep), most / kStep * kStep);
}

}  // namespace gabbro
