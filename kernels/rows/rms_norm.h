// Arguments of RMSNorm over the last axis of a contiguous [rows, columns]. A block of threads a row, or a slice of one.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

// Columns of a row that a block writes where rows are few; all of its row where they are many.
inline constexpr i32 kFewRows = 16, kSliceColumns = 256;
constexpr i32 slice_of(i64 rows, i64 columns) {  // whole waves
  return rows > kFewRows ? static_cast<i32>((columns + 63) / 64 * 64) : kSliceColumns;
}
constexpr u32 slices_of(i64 rows, i64 columns) {
  return static_cast<u32>((columns + slice_of(rows, columns) - 1) / slice_of(rows, columns));
}

struct RowsArgs {
  const float* x;
  const float* weight;  // [columns]
  float* y;
  i64 rows;
  i32 columns;
  i32 slice;  // columns that a block writes, with grid (rows, slices)
  float epsilon;
};

}  // namespace gabbro::gpu
