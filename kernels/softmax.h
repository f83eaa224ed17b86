// Arguments of softmax and log_softmax over the last axis of contiguous x [rows, columns]. A block a row.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

struct SoftmaxArgs {
  const void* x;
  void* y;
  i32 columns;
};

}  // namespace gabbro::gpu
