// Matrices of formats that a backend has no kernels for: its `pack` dequantizes them to rows of f16, and its kernels
// see f16 matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gabbro/backend_abi.h"

namespace gabbro::abi {

// Whether a backend has kernels for the packed form of a quantized format.
using HasKernels = bool (*)(DType format);

// Bytes of a dequantized matrix.
constexpr size_t dequantized_bytes(int64_t rows, int64_t columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns) * 2;
}

// Rows `begin` to `end` of the row-major blocks [rows, columns] at `blocks` as f16, to their place in `target`.
void dequantize_rows(DType format, const void* blocks, int64_t columns, int64_t begin, int64_t end, void* target);

// A packed matrix of a format without kernels as the f16 matrix that is stored. Other views are returned unchanged.
TensorView stored_view(const TensorView& view, HasKernels has_kernels);

// A request whose inputs are the stored views.
class StoredRequest {
 public:
  StoredRequest(const KernelRequest& request, HasKernels has_kernels);
  StoredRequest(const StoredRequest&) = delete;
  StoredRequest& operator=(const StoredRequest&) = delete;

  const KernelRequest& get() const { return request_; }

 private:
  std::vector<TensorView> inputs_;
  KernelRequest request_;
};

}  // namespace gabbro::abi
