// Strided and broadcast operands of one shape, walked in the order of a contiguous result.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

inline constexpr int kMaxAxes = 6;
inline constexpr int kMaxOperands = 3;

// Contiguous axes are merged by the host; axis 0 is the fastest.
struct Axes {
  i32 rank;   // at least 1
  i64 total;  // elements
  i64 shape[kMaxAxes];
  i64 strides[kMaxOperands][kMaxAxes];  // in elements
};

// y[i] = f(inputs at element i): kPerThread elements per thread, or one 16-byte vector.
struct ElementwiseArgs {
  const void* in[kMaxOperands];
  void* out;
  // Whether threads move 16-byte vectors: floats, at most two axes, and along axis 0 each input is contiguous and
  // aligned, or one repeated number.
  i32 vectors;
  Axes axes;
};
inline constexpr int kPerThread = 4;

// One input of a concatenation: element i is copied to out[i / inner · outer + before + i % inner].
struct ConcatArgs {
  const void* in;
  void* out;
  i64 inner;
  i64 outer;
  i64 before;
  Axes axes;
};

}  // namespace gabbro::gpu
