// Arguments of `matmul`.
#pragma once

#include "kernels/elementwise/strided.h"

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

// For an A with few rows, or a B with few columns: these are the vectors, and the other factor is the matrix. One of
// its axes has the stride 1.
inline constexpr int kMatmulVectors = 4;  // at most
struct MatmulVecArgs {
  const float* matrix;
  const float* vectors;
  float* y;
  float* partials;  // with several shares: [batches][shares][count][length]
  u32* arrived;     // with several shares: a zero for each block of a share, and zero again at the end
  i64 length;       // of the matrix's axis that the product keeps
  i64 depth;
  i64 matrix_step;  // of its axis that has not the stride 1
  i64 vector_step;
  i64 vector_depth_step;
  i64 y_step;
  i64 y_vector_step;
  i32 count;     // of vectors
  i32 aligned;   // the matrix can be read 16 bytes at a time
  Axes batches;  // of the matrix and of the vectors
};

}  // namespace gabbro::gpu
