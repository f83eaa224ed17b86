// Arguments of the reductions over the last axis.
#pragma once

#include "kernels/strided.h"

namespace gabbro::gpu {

// x [rows, columns], f32 or i32, whose rows lie anywhere, to y [rows].
struct ReduceArgs {
  const void* x;
  void* y;  // indices (i32) of argmax and argmin
  i64 columns;
  i64 column_stride;
  Axes rows;
};

}  // namespace gabbro::gpu
