// rocBLAS: one handle for a device, which is told the stream when it changes.
#include <rocblas/rocblas.h>

#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/hip/gemm_libraries.h"
#include "backends/gpu/hip/library.h"
#include "backends/gpu/hip/runtime.h"
#include "backends/gpu/hip/tensile_files.h"

namespace gabbro::gpu::hip {
namespace {

// The library's functions that we call. A macro, since each has a different type.
// clang-format off
#define GABBRO_LIBRARY_FUNCTIONS(X) \
  X(rocblas_create_handle) X(rocblas_destroy_handle) X(rocblas_set_stream) X(rocblas_set_workspace) \
  X(rocblas_set_atomics_mode) X(rocblas_gemm_strided_batched_ex) X(rocblas_get_version_string)
// clang-format on

class Rocblas final : public ProductLibrary, public std::enable_shared_from_this<Rocblas> {
 public:
#define GABBRO_APPLY(function) decltype(&::function) function##_ = nullptr;
  GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
  rocblas_handle handle = nullptr;

  Rocblas() = default;
  ~Rocblas() override {
    if (handle != nullptr) static_cast<void>(rocblas_destroy_handle_(handle));
  }
  Rocblas(const Rocblas&) = delete;
  Rocblas& operator=(const Rocblas&) = delete;

  std::string find(std::string_view target) override {
    // Releases of rocBLAS belong to releases of the runtime.
    const char* const name = runtime().version() / 10000000 < 7 ? "librocblas.so.4" : "librocblas.so.5";
    void* library = open_library({name});
    if (library == nullptr)
      return fmt::format("there is no {}: install rocblas (Debian: librocblas5) of the same ROCm release", name);
#define GABBRO_APPLY(function) \
  if (!find_function(library, #function, function##_)) return file().string() + " has no " #function;
    GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
    return missing_tensile_files(file(), "rocblas", std::getenv("ROCBLAS_TENSILE_LIBPATH"), target);
  }
  std::filesystem::path file() const override { return path_of(reinterpret_cast<void*>(rocblas_create_handle_)); }
  bool start() override {
    workspace_ = Workspace::make();
    // Without atomics the same product gives the same bits each time.
    return workspace_ != nullptr && rocblas_create_handle_(&handle) == rocblas_status_success &&
           rocblas_set_atomics_mode_(handle, rocblas_atomics_not_allowed) == rocblas_status_success;
  }

  std::string version() const override {
    char text[64] = "";
    const bool told = rocblas_get_version_string_(text, sizeof text) == rocblas_status_success;
    return told ? text : "of an unknown version";
  }
  std::unique_ptr<LibraryProduct> make(const GemmShape& shape) override;
  // rocblas_set_stream asks for the state of the stream before.
  void leave(hipStream_t stream) override {
    const std::lock_guard lock(mutex_);
    if (stream == current_) static_cast<void>(rocblas_set_stream_(handle, nullptr));
    if (stream == current_) current_ = nullptr;
    if (workspace_ != nullptr) workspace_->leave(stream);
  }

  // The handle is for one caller at a time, and has one stream.
  std::mutex& mutex() const { return mutex_; }
  rocblas_status use(hipStream_t stream) const {
    if (stream == current_) return rocblas_status_success;
    rocblas_status status = rocblas_set_stream_(handle, stream);
    if (status == rocblas_status_success)
      status = rocblas_set_workspace_(handle, workspace_->memory(stream), Workspace::kBytes);
    current_ = status == rocblas_status_success ? stream : nullptr;
    return status;
  }

 private:
  std::shared_ptr<Workspace> workspace_;
  mutable std::mutex mutex_;
  mutable hipStream_t current_ = nullptr;
};

rocblas_datatype type_of(DType dtype) {
  return dtype == DType::f32   ? rocblas_datatype_f32_r
         : dtype == DType::f16 ? rocblas_datatype_f16_r
                               : rocblas_datatype_bf16_r;
}

// The library counts columns first: our row-major y is its yᵀ [rows, tokens] = wᵀᵀ·xᵀ.
class RocblasProduct final : public LibraryProduct {
 public:
  RocblasProduct(std::shared_ptr<const Rocblas> library, const GemmShape& shape)
      : library_(std::move(library)), shape_(shape) {}

  void run(hipStream_t stream, const api::GemmOperands& o) const override {
    const auto number = [](int64_t value) { return static_cast<rocblas_int>(value); };
    const auto transpose = [](bool transposed) {
      return transposed ? rocblas_operation_transpose : rocblas_operation_none;
    };
    const GemmShape& s = shape_;
    const rocblas_datatype type = type_of(s.dtype), result = type_of(s.result);
    const int64_t y_batch = s.tokens * s.y_step;
    const float beta = o.addend == nullptr ? 0 : 1;
    const std::lock_guard lock(library_->mutex());
    rocblas_status status = library_->use(stream);
    if (status == rocblas_status_success) {
      status = library_->rocblas_gemm_strided_batched_ex_(
          library_->handle, transpose(!s.w.transposed), transpose(s.x.transposed), number(s.rows), number(s.tokens),
          number(s.depth), &s.alpha, o.w, type, number(s.w.step), s.w.batch_step, o.x, type, number(s.x.step),
          s.x.batch_step, &beta, o.addend == nullptr ? o.y : o.addend, result, number(s.y_step), y_batch, o.y, result,
          number(s.y_step), y_batch, number(s.batches), rocblas_datatype_f32_r, rocblas_gemm_algo_standard, 0, 0);
    }
    if (status != rocblas_status_success) {
      throw ApiError(abi::StatusCode::kFailed,
                     fmt::format("rocm: multiplying with rocBLAS: status {}", static_cast<int>(status)));
    }
  }

 private:
  std::shared_ptr<const Rocblas> library_;
  GemmShape shape_;
};

std::unique_ptr<LibraryProduct> Rocblas::make(const GemmShape& shape) {
  if (shape.bias || shape.activation != api::Activation::kNone) return nullptr;  // it only multiplies
  for (int64_t number :
       {shape.rows, shape.tokens, shape.depth, shape.batches, shape.w.step, shape.x.step, shape.y_step}) {
    if (number > INT_MAX) return nullptr;
  }
  return std::make_unique<RocblasProduct>(shared_from_this(), shape);
}

}  // namespace

std::shared_ptr<ProductLibrary> make_rocblas() { return std::make_shared<Rocblas>(); }

}  // namespace gabbro::gpu::hip
