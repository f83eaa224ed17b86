// Arguments of softmax and log_softmax over the last axis of contiguous x [rows, columns]. A block a row, or a wave.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

struct SoftmaxArgs {
  const void* x;
  void* y;
  i64 rows;
  i32 columns;
  i32 logarithm;
};

}  // namespace gabbro::gpu
