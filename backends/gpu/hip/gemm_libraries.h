// ROCm's libraries of matrix products behind api::Gemm: hipBLASLt, and rocBLAS for what that does not take. They are
// opened when the first product is made; each may be missing, lack the device's target or refuse a shape.
#pragma once

#include <hip/hip_runtime_api.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/api.h"
#include "backends/gpu/hip/library_verdicts.h"

namespace gabbro::gpu::hip {

using api::GemmShape;

class LibraryProduct {
 public:
  virtual ~LibraryProduct() = default;
  // Throws where the library fails.
  virtual void run(hipStream_t stream, const api::GemmOperands& operands) const = 0;
};

// A library on one device. Its products hold on to it. The device is current in all functions.
class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;
  // Opens the library's file and looks for its kernels for `target`, without a call of the library, which might end the
  // process. One line that says what is missing; empty if it is all there.
  virtual std::string find(std::string_view target) = 0;
  virtual std::filesystem::path file() const = 0;  // that find() opened
  // Creates the library's handle, after find().
  virtual bool start() = 0;
  virtual std::string version() const = 0;  // "5.2.0"
  // Null if the library takes no such product.
  virtual std::unique_ptr<LibraryProduct> make(const GemmShape& shape) = 0;
  // Called before a stream is destroyed: the library must not ask for its state later.
  virtual void leave(hipStream_t stream) = 0;
};

// Memory of the device that a library's products may use, in sequence on a stream.
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
  // The stream, which has no work left, is destroyed: another one may take its memory.
  void leave(hipStream_t stream);

 private:
  std::mutex mutex_;
  std::vector<void*> unused_;
  std::map<hipStream_t, void*> by_stream_;
};

std::shared_ptr<ProductLibrary> make_hipblaslt();
std::shared_ptr<ProductLibrary> make_rocblas();
// "hipBLASLt" or "rocBLAS"; null for another name.
std::shared_ptr<ProductLibrary> make_product_library(std::string_view name);

// The libraries of a device that multiply correctly there. Each is opened when it is first asked for something; the
// first product of each class of shapes is computed in a child process (library_verdicts.h).
class ProductLibraries {
 public:
  // Throws if GABBRO_ROCM_LIBRARIES names an unknown library.
  ProductLibraries(int device, const std::string& architecture);
  ProductLibraries(const ProductLibraries&) = delete;
  ProductLibraries& operator=(const ProductLibraries&) = delete;

  // The libraries that may be asked, in that order, as they write themselves: "hipBLASLt". None is opened.
  std::vector<std::string> names() const;
  // Whether they are used for shapes without a measurement: on RDNA only if GABBRO_ROCM_LIBRARIES names them, since
  // there they were seen to fault and to be slower (ROCm/rocm-libraries#5706, #8242, #9962).
  bool are_trusted() const;
  // Empty if there is no such library that works.
  std::string version(std::string_view name);
  // Why the library is not used, in one line; empty if it is.
  std::string problem(std::string_view name);
  // Null if there is none, or it does not take the product, or its result has 2 GiB or more.
  std::unique_ptr<LibraryProduct> make(std::string_view name, const GemmShape& shape);
  // Called before a stream is destroyed, which has no work left.
  void leave(hipStream_t stream);

 private:
  struct Entry {
    const char* name;
    std::string identity;  // with the file's name and size, which stand for the version
    std::string problem;
    std::shared_ptr<ProductLibrary> library;  // null until it was opened
  };

  // All with the mutex held.
  Entry* opened(std::string_view name);
  std::string open(Entry& entry);
  std::string verdict(const Entry& entry, const std::string& words, const GemmShape& shape);
  std::optional<LibraryVerdict> check(const std::string& name, const std::string& words, const GemmShape& shape) const;

  int device_;
  std::string target_;
  bool are_chosen_ = false;
  std::mutex mutex_;
  LibraryVerdicts verdicts_;
  std::vector<Entry> entries_;
};

}  // namespace gabbro::gpu::hip
