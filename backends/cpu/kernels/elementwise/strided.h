// Walking strided and broadcast inputs of one shape in the order of a contiguous output: contiguous axes are merged
// when the kernel is made (primitives.h); the rest is rows with one stride per input.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "backends/common/primitives.h"

namespace gabbro::cpu::GABBRO_ISA {

using abi::kMaxStridedInputs;

// Elements that a worker takes at a time: enough to hide the shared counter, few enough to share and to cancel.
inline constexpr int64_t kElementGrain = 4096;

inline constexpr int64_t kTransposedSide = 16;  // least length of both axes of a transposed input

// The contiguous axis of an input whose last axis is strided; -1 if it is not transposed like that.
inline int transposed_axis(const abi::TensorView& x) {
  const int last = x.rank - 1;
  if (last < 1 || x.shape[last] < kTransposedSide || x.strides[last] == 0 || x.strides[last] == 1) return -1;
  for (int axis = 0; axis < last; ++axis) {
    if (x.strides[axis] == 1 && x.shape[axis] >= kTransposedSide) return axis;
  }
  return -1;
}

// Whether a large input is transposed. It is copied first, by tiles (transpose.cc): element by element, each of its
// cache lines would be read many times.
inline bool has_transposed_input(const abi::KernelRequest& request) {
  constexpr int64_t kMany = 1 << 14;
  return std::any_of(request.inputs, request.inputs + request.input_count,
                     [](const abi::TensorView& x) { return transposed_axis(x) >= 0 && elements(x) >= kMany; });
}

// Elementwise, of inputs that are walked by rows.
inline bool is_elementwise_by_rows(const abi::KernelRequest& request, int inputs) {
  return is_elementwise(request, inputs) && !has_transposed_input(request);
}

class StridedWalk {
 public:
  StridedWalk() = default;

  explicit StridedWalk(std::span<const abi::TensorView> inputs)
      : inputs_(static_cast<int>(inputs.size())), axes_(abi::merge_axes(inputs)) {}

  int64_t total() const { return axes_.total; }
  bool is_row() const { return axes_.rank == 1; }  // all elements are one row
  int64_t row_stride(int input) const { return axes_.strides[input][0]; }

  // Calls row(offsets, position, count) for the rows of the elements [begin, end): the offset of its first element in
  // each input, its position in the output, and its length.
  template <class Row>
  void rows(int64_t begin, int64_t end, Row&& row) const {
    std::array<int64_t, abi::kMaxRank> index{};
    std::array<int64_t, kMaxStridedInputs> offsets{};
    int64_t rest = begin;
    for (int axis = 0; axis < axes_.rank; ++axis) {
      index[axis] = rest % axes_.shape[axis];
      rest /= axes_.shape[axis];
      for (int i = 0; i < inputs_; ++i) offsets[i] += index[axis] * axes_.strides[i][axis];
    }
    for (int64_t position = begin; position < end;) {
      const int64_t count = std::min(axes_.shape[0] - index[0], end - position);
      row(offsets, position, count);
      position += count;
      for (int i = 0; i < inputs_; ++i) offsets[i] -= index[0] * axes_.strides[i][0];
      index[0] = 0;
      for (int axis = 1; axis < axes_.rank; ++axis) {
        for (int i = 0; i < inputs_; ++i) offsets[i] += axes_.strides[i][axis];
        if (++index[axis] < axes_.shape[axis]) break;
        for (int i = 0; i < inputs_; ++i) offsets[i] -= axes_.shape[axis] * axes_.strides[i][axis];
        index[axis] = 0;
      }
    }
  }

 private:
  int inputs_ = 0;
  abi::StridedAxes axes_;
};

}  // namespace gabbro::cpu::GABBRO_ISA
