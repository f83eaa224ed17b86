// One matrix product by a library, compared with the host: run in a child process, since it may crash.
#pragma once

#include <string>

#include "backends/gpu/hip/gemm_libraries.h"

namespace gabbro::gpu::hip {

// Thrown if there is not enough memory for the operands.
struct NoMemoryForTrial : ApiError {
  using ApiError::ApiError;
};

// Multiplies pseudo-random whole numbers, and compares results at the ends and in between. One line that says what is
// wrong; empty if the library multiplies correctly. Throws ApiError if the device fails.
std::string try_product(ProductLibrary& library, const GemmShape& shape);

}  // namespace gabbro::gpu::hip
