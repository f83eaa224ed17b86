// Arguments of layer_norm, group_norm, batch_norm and moments over contiguous tensors of f32, f16 or bf16. The channel
// of a row's column is (row % groups) · columns / spatial + column / spatial.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

enum class NormActivation : i32 { kNone, kRelu, kGeluTanh, kSilu };

struct NormalizeArgs {
  const void* x;  // [rows, columns]
  void* y;
  const void* weight;  // [channels], f32 or x's dtype; null: 1
  const void* bias;    // [channels], the same; null: 0
  i32 columns;
  i32 groups;
  i32 spatial;
  float epsilon;
  i32 half_parameters;  // weight and bias are of x's dtype
  i32 centered;         // 0: rms_norm, which takes the mean for 0
  i64 rows;
  const void* addend;         // [rows, columns]; null: none. The norm is of x + addend,
  void* sum;                  // [rows, columns], rounded, which is stored here. For rows with their own statistics
  NormActivation activation;  // of y. For rows with known statistics
};

// With known statistics: row r has number r % statistics. A thread has kPerThread elements.
struct KnownArgs {
  NormalizeArgs norm;
  const float* mean;
  const float* variance;
  i64 total;  // elements
  i64 statistics;
};

// For rows of one channel each, in whole 16-byte vectors. Blocks (rows, slices of `slice` columns).
struct KnownRowsArgs {
  NormalizeArgs norm;
  const float* mean;
  const float* variance;
  i32 statistics;
  i32 slice;
};

// The mean and the mean squared distance from it, over `outer` and `inner`, of x [outer, channels, inner]. A block a
// slice of a channel; where there are several, moments_join makes one of their statistics.
struct MomentsArgs {
  const void* x;
  float* mean;      // [channels], of slices [channels, slices]
  float* variance;  // the same; of slices the sum of the squares
  i32 outer;
  i32 channels;
  i32 inner;
  i32 slices;  // of `slice` elements, the last one fewer
  i32 slice;
  i32 vectors;  // inner, and so a slice, is whole 16-byte vectors
};
struct JoinMomentsArgs {
  const float* means;    // [channels, slices]
  const float* squares;  // [channels, slices]
  float* mean;           // [channels]
  float* variance;       // [channels]
  i32 count;             // elements of a channel
  i32 channels;
  i32 slices;
  i32 slice;
};

}  // namespace gabbro::gpu
