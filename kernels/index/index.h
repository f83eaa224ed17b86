// Arguments of the kernels that look rows up, and of iota. A row is `columns` elements that follow each other, of 1, 2,
// 4 or 8 bytes; gather also takes 16 bytes for one.
#pragma once

#include "kernels/index/index_check.h"

namespace gabbro::gpu {

// A thread an element of y.
struct GatherArgs {
  const void* x;
  const i32* indices;
  void* y;       // [total / columns][columns]
  i64 row_step;  // of x, in elements
  i64 columns;
  i64 total;
  IndexCheck check;
};

// A thread an index: y[r * count + i] = r * size + the position of index i, for r < repeats.
struct ResolveIndexArgs {
  const void* indices;
  const i32* outer;  // null: the number of the run
  i32* y;
  i64 count;
  i64 repeats;
  IndexCheck check;
};

// A block of threads a row.
struct ScatterArgs {
  void* target;
  const i32* indices;
  const void* rows;
  i64 target_rows;
  i64 target_step;  // in elements
  i64 row_step;
  i64 count;  // of rows, and of blocks
  i64 columns;
};

// A thread an element.
struct IotaArgs {
  void* y;
  i64 total;
  double start;
  double step;
  i64 whole_start;  // of i64, whose numbers a double does not hold
};

}  // namespace gabbro::gpu
