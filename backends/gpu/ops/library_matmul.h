// Products of plain matrices by a vendor's library, which may add a bias and an activation.
#pragma once

#include <memory>
#include <string>

#include "backends/common/primitives.h"
#include "backends/gpu/kernel.h"

namespace gabbro::gpu {

// C [batches][M, N] = A [M, K] · B [K, N], C contiguous, all of one dtype.
struct LibraryMatmul {
  DType dtype;
  abi::MatrixView a, b;
  int64_t batches = 1, a_batch = 0, b_batch = 0;  // from batch to batch, in elements
  bool bias = false;                              // input 2
  api::Activation activation = api::Activation::kNone;
};

// Inputs 0 and 1 of a `matmul`; false where the steps from batch to batch differ, or it is none of floats.
bool read_library_matmul(const abi::KernelRequest& request, LibraryMatmul& matmul);

// Null where the library is missing or does not take the product. `operation` is what the kernel calls itself.
std::unique_ptr<Kernel> make_library_matmul(const std::string& operation, const std::string& library,
                                            const LibraryMatmul& matmul, const MakeContext& context);

}  // namespace gabbro::gpu
