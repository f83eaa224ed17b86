// Arguments of `matmul`.
#pragma once

#include "kernels/strided.h"

namespace gabbro::gpu {

inline constexpr int kMatmulSide = 16;  // a block of threads is a square of this side

// C [rows, columns] = A [rows, depth] · B [depth, columns] for each batch, f32.
struct MatmulArgs {
  const float* a;
  const float* b;
  float* c;
  i64 rows;
  i64 columns;
  i64 depth;
  i64 a_row_stride;
  i64 a_column_stride;
  i64 b_row_stride;
  i64 b_column_stride;
  i64 row_tiles;  // blocks are numbered by column tile, then row tile, then batch
  i64 column_tiles;
  Axes batches;  // of a and b
};

}  // namespace gabbro::gpu
