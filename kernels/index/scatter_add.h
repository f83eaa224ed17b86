// Arguments of take_along, scatter_add and index_add over contiguous tensors.
#pragma once

#include "kernels/index/index_check.h"

namespace gabbro::gpu {

// take_along: x [rows, columns], indices [rows, picks] to y [rows, picks]; a thread an element of y.
// scatter_add: the same with values [rows, picks] to y [rows, columns]; a thread an element of y.
// index_add: x [rows, columns], indices [picks], values [picks, columns] to y [rows, columns]; a block a row.
struct AlongArgs {
  const void* x;
  const i32* indices;
  const void* values;
  void* y;
  i64 rows;
  i64 columns;
  i64 picks;
  IndexCheck check;
};

}  // namespace gabbro::gpu
