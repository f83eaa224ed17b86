// An activation [1, C, H, W] that is written and read in bands of rows.
#pragma once

#include <atomic>
#include <vector>

#include "gabbro/nn/norm.h"
#include "gabbro/tensor/tensor.h"

namespace gabbro::diffusion {

class RowStore {
 public:
  // `groups`: of the norms that read it.
  RowStore(const Shape& shape, int64_t groups, const std::atomic<bool>* cancel);
  int64_t channels() const { return shape_[1]; }
  int64_t height() const { return shape_[2]; }
  int64_t width() const { return shape_[3]; }

  // Evaluates the next rows, f32 [1, C, rows, W], and stores them in f16 with one scale.
  void append(const Tensor& rows);
  // Rows from, from + 1, ... to - 1 as f32 [1, C, to - from, W].
  Tensor read(int64_t from, int64_t to) const;
  // Rows before this one are read no more.
  void drop_before(int64_t row);
  // rows · scale + shift is the norm of the whole activation: both f32 [1, C, 1, 1]. Once all rows are there.
  struct Affine {
    Tensor scale, shift;
  };
  Affine normalization(const nn::GroupNorm& norm) const;

 private:
  struct Piece {
    Tensor values, scale;  // f16 [1, C, rows, W], f32 []
    int64_t first = 0, rows = 0;
  };
  // Count, mean and sum of the squared differences from it, of a group.
  struct Moments {
    double count = 0, mean = 0, squares = 0;
  };

  Shape shape_;
  std::vector<Moments> moments_;
  const std::atomic<bool>* cancel_;
  std::vector<Piece> pieces_;
  int64_t written_ = 0;
};

}  // namespace gabbro::diffusion
