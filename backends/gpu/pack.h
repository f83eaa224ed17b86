// Weight matrices from the block formats of GGUF to the planes of kernels/linear/packing.h, on the host.
#pragma once

#include <cstddef>
#include <vector>

#include "gabbro/dtype.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/packing.h"

namespace gabbro::gpu {

Packing packing_of(DType dtype);  // `dtype` is quantized

// 0 if the matrix is read in the file's layout: plain dtypes, and rows that are not whole blocks.
size_t packed_bytes(DType dtype, int64_t rows, int64_t columns);

// `host`: the row-major blocks. The result has packed_bytes() bytes.
std::vector<std::byte> pack_matrix(DType dtype, int64_t rows, int64_t columns, const void* host);

// The planes of a packed matrix at `data`.
LinearMatrix packed_matrix(DType dtype, int64_t rows, int64_t columns, const void* data);

}  // namespace gabbro::gpu
