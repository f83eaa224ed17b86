// Arguments of the kernels that reduce the last axis of a contiguous [rows, columns]. A block of threads a row.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

struct RowsArgs {
  const float* x;
  const float* weight;  // [columns]; rms_norm alone
  float* y;
  i32 columns;
  float epsilon;
};

}  // namespace gabbro::gpu
