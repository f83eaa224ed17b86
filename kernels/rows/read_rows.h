// Arguments of the kernels of `embedding` and `dequantize`.
#pragma once

#include "kernels/index/index_check.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/packing.h"

namespace gabbro::gpu {

// Threads of a block, and columns that it reads of a row: grid (rows, parts of the columns).
inline constexpr int kReadThreads = 64, kReadElements = 8;
constexpr i32 read_columns(bool quantized) { return kReadThreads * (quantized ? kBlock : kReadElements); }

// `check` counts where there are ids.
struct CheckedReadRowsArgs {
  ReadRowsArgs rows;
  IndexCheck check;
};

}  // namespace gabbro::gpu
