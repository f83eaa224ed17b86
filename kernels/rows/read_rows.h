// Arguments of the kernels of `embedding` and `dequantize`.
#pragma once

#include "kernels/index/index_check.h"
#include "kernels/linear/linear.h"

namespace gabbro::gpu {

// `check` counts where there are ids.
struct CheckedReadRowsArgs {
  ReadRowsArgs rows;
  IndexCheck check;
};

}  // namespace gabbro::gpu
