// ROCm's libraries of matrix products behind api::Gemm: hipBLASLt, and rocBLAS for what that does not take. They are
// opened when the first product is made; each may be missing, lack the device's target or refuse a shape.
#pragma once

#include <hip/hip_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/gpu/api.h"

namespace gabbro::gpu::hip {

using api::GemmShape;

class LibraryProduct {
 public:
  virtual ~LibraryProduct() = default;
  // Throws where the library fails.
  virtual void run(hipStream_t stream, const api::GemmOperands& operands) const = 0;
};

// A library on one device. Its products hold on to it.
class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;
  virtual std::string version() const = 0;  // "5.2.0"
  // Null where the library takes no such product. The device is current, as in all of these.
  virtual std::unique_ptr<LibraryProduct> make(const GemmShape& shape) = 0;
};

// Memory of the device that a library's products may use, one after another on a stream.
class Workspace {
 public:
  // Default workspace of hipBLASLt and rocBLAS on most targets.
  static constexpr size_t kBytes = size_t{32} << 20;

  // Null where there is not enough memory.
  static std::shared_ptr<Workspace> make();
  Workspace() = default;
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // That of the stream, which is allocated when another stream than the first asks. Throws ApiError.
  void* memory(hipStream_t stream);

 private:
  std::mutex mutex_;
  void* first_ = nullptr;  // until a stream takes it
  std::map<hipStream_t, void*> by_stream_;
};

// Null where there is no such library that has code for `target`.
std::shared_ptr<ProductLibrary> open_hipblaslt(std::string_view target);
std::shared_ptr<ProductLibrary> open_rocblas(std::string_view target);

// The libraries of a device that multiply correctly there. Each is opened when it is first asked for something, and
// tried with a small product of each pair of dtypes before it is used for these.
class ProductLibraries {
 public:
  // Throws where GABBRO_ROCM_LIBRARIES names what there is not.
  explicit ProductLibraries(std::string_view architecture);
  ~ProductLibraries();
  ProductLibraries(const ProductLibraries&) = delete;
  ProductLibraries& operator=(const ProductLibraries&) = delete;

  // The libraries that may be asked, in that order, as they write themselves: "hipBLASLt". None is opened.
  std::vector<std::string> names() const;
  // Empty where there is no such library that works.
  std::string version(std::string_view name);
  // Null where there is none, or it does not take the product.
  std::unique_ptr<LibraryProduct> make(std::string_view name, const GemmShape& shape);

 private:
  struct Entry {
    const char* name;
    std::shared_ptr<ProductLibrary> (*open)(std::string_view target);
    bool opened = false;
    std::shared_ptr<ProductLibrary> library;
    std::map<std::pair<DType, DType>, bool> works;  // for factors and results of these
  };

  // Both with the mutex held, and null where there is no such library that works.
  Entry* opened(std::string_view name);
  ProductLibrary* for_dtypes(std::string_view name, DType dtype, DType result);

  std::string target_;
  hipStream_t stream_ = nullptr;  // for trials; rocBLAS asks for the state of the stream that it used before
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace gabbro::gpu::hip
