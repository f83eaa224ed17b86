// The planes of kernels/linear/packing.h as the host sees them, and weight matrices from the block formats of GGUF to
// them on the host: the reference of the kernels (packer.h), and the way of formats that have none.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "gabbro/backend_abi.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/packing.h"

namespace gabbro::gpu {

// The name that the kernels of a dtype have; empty for a quantized format without.
std::string_view kernel_format(DType dtype);
bool has_kernels(DType dtype);

// 0 if the matrix is read in the file's layout: plain dtypes, and rows that are not whole blocks. Formats without
// kernels are dequantized (backends/common/dequantized.h).
size_t packed_bytes(DType dtype, int64_t rows, int64_t columns);

// `host`: the row-major blocks. The result has packed_bytes() bytes.
std::vector<std::byte> pack_matrix(DType dtype, int64_t rows, int64_t columns, const void* host);

// Bytes that rows of a matrix have in one of the planes of its packed form.
struct PlaneRows {
  size_t at;  // from the start of the packed matrix
  size_t bytes;
};
std::vector<PlaneRows> plane_rows(const abi::PackRequest& request);

// The planes of a packed matrix at `data`, of a format with kernels.
LinearMatrix packed_matrix(DType dtype, int64_t rows, int64_t columns, const void* data);

}  // namespace gabbro::gpu
