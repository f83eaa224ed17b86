// Walking strided and broadcast inputs of one shape in the order of a contiguous output: axes that lie together are
// merged when the kernel is made; what is left is rows with one stride per input.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "gabbro/backend_abi.h"

namespace gabbro::cpu::GABBRO_ISA {

inline constexpr int kMaxStridedInputs = 3;

// Elements that a worker takes at a time: enough to hide the shared counter, few enough to share and to cancel.
inline constexpr int64_t kElementGrain = 4096;

class StridedWalk {
 public:
  StridedWalk() = default;

  explicit StridedWalk(std::span<const abi::TensorView> inputs) : inputs_(static_cast<int>(inputs.size())) {
    const abi::TensorView& first = inputs.front();
    for (int axis = first.rank - 1; axis >= 0; --axis) {
      const int64_t extent = first.shape[axis];
      total_ *= extent;
      if (extent == 1) continue;
      bool merge = rank_ > 0;
      for (int i = 0; i < inputs_ && merge; ++i) {
        merge = inputs[i].strides[axis] == strides_[i][rank_ - 1] * shape_[rank_ - 1];
      }
      if (merge) {
        shape_[rank_ - 1] *= extent;
        continue;
      }
      for (int i = 0; i < inputs_; ++i) strides_[i][rank_] = inputs[i].strides[axis];
      shape_[rank_++] = extent;
    }
    if (rank_ == 0) rank_ = 1;  // one element
  }

  int64_t total() const { return total_; }
  int64_t row_stride(int input) const { return strides_[input][0]; }

  // Calls row(offsets, position, count) for the rows of the elements [begin, end): the offset of its first element in
  // each input, its position in the output, and its length.
  template <class Row>
  void rows(int64_t begin, int64_t end, Row&& row) const {
    std::array<int64_t, abi::kMaxRank> index{};
    std::array<int64_t, kMaxStridedInputs> offsets{};
    int64_t rest = begin;
    for (int axis = 0; axis < rank_; ++axis) {
      index[axis] = rest % shape_[axis];
      rest /= shape_[axis];
      for (int i = 0; i < inputs_; ++i) offsets[i] += index[axis] * strides_[i][axis];
    }
    for (int64_t position = begin; position < end;) {
      const int64_t count = std::min(shape_[0] - index[0], end - position);
      row(offsets, position, count);
      position += count;
      for (int i = 0; i < inputs_; ++i) offsets[i] -= index[0] * strides_[i][0];
      index[0] = 0;
      for (int axis = 1; axis < rank_; ++axis) {
        for (int i = 0; i < inputs_; ++i) offsets[i] += strides_[i][axis];
        if (++index[axis] < shape_[axis]) break;
        for (int i = 0; i < inputs_; ++i) offsets[i] -= shape_[axis] * strides_[i][axis];
        index[axis] = 0;
      }
    }
  }

 private:
  int inputs_ = 0;
  int rank_ = 0;  // axis 0 is the fastest
  int64_t total_ = 1;
  std::array<int64_t, abi::kMaxRank> shape_{1, 1, 1, 1, 1, 1};
  std::array<std::array<int64_t, abi::kMaxRank>, kMaxStridedInputs> strides_{};
};

}  // namespace gabbro::cpu::GABBRO_ISA
