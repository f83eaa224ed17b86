// A matrix of `linear` for a vendor's BLAS library: f16 in place, other dtypes converted to f16 before, in slices of
// rows.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/gpu/kernel.h"
#include "kernels/linear/linear.h"

namespace gabbro::gpu {

class LibraryMatrix {
 public:
  // For f16 activations [tokens][depth] (ConvertRowsArgs). Nothing if the library is missing or refuses, or memory is
  // too short for f16 copies of quantized weights.
  static std::optional<LibraryMatrix> make(const std::string& library, const abi::TensorView& weight, int64_t tokens,
                                           int64_t depth, const MakeContext& context);

  // Memory for weights as f16.
  int64_t scratch_bytes() const { return scratch_bytes_; }

  // matrix.y = the products + addend, which may be null, without what LinearFinishArgs adds.
  void enqueue(const Launcher& run, const LinearMatrix& matrix, const Half* x, const float* addend,
               void* scratch) const;

 private:
  struct Slice {
    int64_t first_row, rows;
    std::shared_ptr<const api::Gemm> product;
  };

  int64_t columns_ = 0;
  const api::Function* convert_ = nullptr;  // null: the weights are f16
  u32 threads_of_row_ = 0;                  // that convert a row
  int64_t scratch_bytes_ = 0;
  std::vector<Slice> slices_;
};

}  // namespace gabbro::gpu
