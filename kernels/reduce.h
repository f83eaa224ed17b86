// Arguments of the reductions over the last axis.
#pragma once

#include "kernels/strided.h"

namespace gabbro::gpu {

// x [rows, columns] of f32, f16, bf16, i32 or i64, whose rows lie anywhere, to y [rows], f32 for halves. Where columns
// are many and rows few, a grid has parts: number p reduces columns p · part_columns, ... to states [parts, rows],
// which another launch joins.
struct ReduceArgs {
  const void* x;
  void* y;       // indices (i32) of argmax and argmin
  void* states;  // null: one part
  i64 columns;
  i64 column_stride;
  i64 part_columns;
  i32 packs;  // each part of a row is whole packs of 16 bytes
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
