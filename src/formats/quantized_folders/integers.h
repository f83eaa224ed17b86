// Matrices of small integers with a scale, and a zero point, for each group of a row's columns.
#pragma once

#include <functional>

#include "src/formats/quantized_folders/published.h"

namespace gabbro::published {

// value(row, column) = scale(row, g) · (code(row, column) - zero(row, g)), g the column's group.
struct Integers {
  int64_t rows = 0, columns = 0;
  int bits = 4;                   // of a code: 2, 4 or 8
  int64_t group = 0;              // columns of a group; the last group may be shorter
  std::vector<int32_t> groups{};  // of each column, in range; empty: column / group
  bool bfloat_scales = false;     // scales are stored as bf16,
  bool half_scales = false;       // or as f16
  // Codes of rows [first, first + count), count ≤ kRowsAtOnce: out [count][columns].
  std::function<void(int64_t first, int64_t count, uint8_t* out)> codes{};
  std::function<float(int64_t row, int64_t group)> scale{};
  std::function<int(int64_t row, int64_t group)> zero{};  // from 0 to 2^bits

  int64_t group_count() const { return (columns + group - 1) / group; }
};
inline constexpr int64_t kRowsAtOnce = 16;

// dtype, shape, fill and dequantized_for of `out`: Q4_0, Q8_0, INT4_ZP or INT8_F32 where that is exact. The functions
// of `integers` are called until `out` is destroyed.
void make_matrix(Integers integers, Matrix& out);

}  // namespace gabbro::published
