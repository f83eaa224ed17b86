// Arguments of the reductions over the last axis.
#pragma once

#include "kernels/elementwise/strided.h"

namespace gabbro::gpu {

// x [rows, columns] of f32, f16, bf16, i32 or i64, with strided rows, to y [rows], f32 for f16 and bf16. With many
// columns and few rows a grid has parts: part p reduces columns p · part_columns, ... to states [parts, rows], which
// another launch merges.
struct ReduceArgs {
  const void* x;
  void* y;       // indices (i32) of argmax and argmin
  void* states;  // null: one part
  i64 columns;
  i64 column_stride;
  i64 part_columns;
  i32 vectors;  // each part of a row is whole 16-byte vectors
  Axes rows;
};

struct ReduceJoinArgs {
  const void* states;
  void* y;
  i64 parts;
  i64 rows;
};
inline constexpr i64 kLargestState = 16;  // bytes

}  // namespace gabbro::gpu
