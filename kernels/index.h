// Arguments of the kernels that look rows up. A row is `columns` consecutive elements of 1, 2, 4 or 8 bytes.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

// A thread an element of y.
struct GatherArgs {
  const void* x;
  const i32* indices;
  void* y;       // [total / columns][columns]
  i64 rows;      // of x
  i64 row_step;  // of x, in elements
  i64 columns;
  i64 total;
};

}  // namespace gabbro::gpu
