// cuBLASLt behind api::Gemm. The library is opened when the first product is made; where it is missing there are
// none.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>

#include "backends/gpu/api.h"

namespace gabbro::gpu::api {

class CublasProduct {
 public:
  virtual ~CublasProduct() = default;

  // Throws where the library fails.
  virtual void run(CUstream stream, const GemmOperands& operands, void* workspace) const = 0;
};

// Workspace of a GEMM on the device.
inline constexpr size_t kCublasWorkspace = size_t{32} << 20;  // NVIDIA's advice for compute capability 9.0

// "13.0.2", as the library counts; empty: none that works.
std::string cublas_version();

// The library on one device: its handle belongs to the device's context, which is current in all calls.
class CublasLibrary {
 public:
  virtual ~CublasLibrary() = default;
  // Null where it takes no such product. Products do not outlive the library.
  virtual std::unique_ptr<CublasProduct> make(const GemmShape& shape) = 0;
};

// Null without the library.
std::unique_ptr<CublasLibrary> open_cublas();

}  // namespace gabbro::gpu::api
