// hipBLASLt: one handle for a device, and for each shape the algorithm that the library's own heuristic ranks first.
#include <hipblaslt/hipblaslt.h>

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
  X(hipblasLtCreate) X(hipblasLtDestroy) X(hipblasLtGetVersion) X(hipblasLtMatmulDescCreate) X(hipblasLtMatmulDescDestroy) \
  X(hipblasLtMatmulDescSetAttribute) X(hipblasLtMatrixLayoutCreate) X(hipblasLtMatrixLayoutDestroy) X(hipblasLtMatrixLayoutSetAttribute) \
  X(hipblasLtMatmulPreferenceCreate) X(hipblasLtMatmulPreferenceDestroy) X(hipblasLtMatmulPreferenceSetAttribute) \
  X(hipblasLtMatmulAlgoGetHeuristic) X(hipblasLtMatmul)
// clang-format on

class Hipblaslt final : public ProductLibrary, public std::enable_shared_from_this<Hipblaslt> {
 public:
#define GABBRO_APPLY(function) decltype(&::function) function##_ = nullptr;
  GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
  hipblasLtHandle_t handle = nullptr;

  Hipblaslt() = default;
  ~Hipblaslt() override {
    if (handle != nullptr) static_cast<void>(hipblasLtDestroy_(handle));
  }
  Hipblaslt(const Hipblaslt&) = delete;
  Hipblaslt& operator=(const Hipblaslt&) = delete;

  std::string find(std::string_view target) override {
    // The one of ROCm 7; that of ROCm 6 has another binary interface.
    if (runtime().version() / 10000000 < 7) return "it needs ROCm 7";
    void* library = open_library({"libhipblaslt.so.1"});
    if (library == nullptr) return "there is no libhipblaslt.so.1: install hipblaslt of the same ROCm release";
#define GABBRO_APPLY(function) \
  if (!find_function(library, #function, function##_)) return file().string() + " has no " #function;
    GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
    return missing_tensile_files(file(), "hipblaslt", std::getenv("HIPBLASLT_TENSILE_LIBPATH"), target);
  }
  std::filesystem::path file() const override { return path_of(reinterpret_cast<void*>(hipblasLtCreate_)); }
  bool start() override {
    workspace_ = Workspace::make();
    return workspace_ != nullptr && hipblasLtCreate_(&handle) == HIPBLAS_STATUS_SUCCESS;
  }

  // Counted as 100000 · major + 100 · minor + patch.
  std::string version() const override {
    int number = 0;
    if (hipblasLtGetVersion_(handle, &number) != HIPBLAS_STATUS_SUCCESS) return "of an unknown version";
    return fmt::format("{}.{}.{}", number / 100000, number / 100 % 1000, number % 100);
  }
  std::unique_ptr<LibraryProduct> make(const GemmShape& shape) override;
  void leave(hipStream_t stream) override {
    if (workspace_ != nullptr) workspace_->leave(stream);
  }
  void* workspace(hipStream_t stream) const { return workspace_->memory(stream); }

 private:
  std::shared_ptr<Workspace> workspace_;
};

hipDataType type_of(DType dtype) {
  return dtype == DType::f32 ? HIP_R_32F : dtype == DType::f16 ? HIP_R_16F : HIP_R_16BF;
}

hipblasLtEpilogue_t epilogue_of(const GemmShape& shape) {
  switch (shape.activation) {
    case api::Activation::kRelu:
      return shape.bias ? HIPBLASLT_EPILOGUE_RELU_BIAS : HIPBLASLT_EPILOGUE_RELU;
    case api::Activation::kGeluTanh:
      return shape.bias ? HIPBLASLT_EPILOGUE_GELU_BIAS : HIPBLASLT_EPILOGUE_GELU;
    case api::Activation::kSilu:
      return shape.bias ? HIPBLASLT_EPILOGUE_SWISH_BIAS_EXT : HIPBLASLT_EPILOGUE_SWISH_EXT;
    case api::Activation::kNone:
      break;
  }
  return shape.bias ? HIPBLASLT_EPILOGUE_BIAS : HIPBLASLT_EPILOGUE_DEFAULT;
}

// The library counts columns first: our row-major y is its yᵀ [rows, tokens] = wᵀᵀ·xᵀ.
class HipblasltProduct final : public LibraryProduct {
 public:
  HipblasltProduct(std::shared_ptr<const Hipblaslt> library, const GemmShape& shape)
      : library_(std::move(library)), shape_(shape) {}
  ~HipblasltProduct() override {
    for (hipblasLtMatrixLayout_t layout : {w_, x_, y_}) {
      if (layout != nullptr) static_cast<void>(library_->hipblasLtMatrixLayoutDestroy_(layout));
    }
    if (description_ != nullptr) static_cast<void>(library_->hipblasLtMatmulDescDestroy_(description_));
  }
  HipblasltProduct(const HipblasltProduct&) = delete;
  HipblasltProduct& operator=(const HipblasltProduct&) = delete;

  // False where the library takes no such product.
  bool prepare() {
    const int32_t w_transpose = shape_.w.transposed ? HIPBLAS_OP_N : HIPBLAS_OP_T,
                  x_transpose = shape_.x.transposed ? HIPBLAS_OP_T : HIPBLAS_OP_N;
    const uint32_t epilogue = epilogue_of(shape_);
    const int32_t bias_type = type_of(shape_.result);
    const api::Factor y = {.step = shape_.y_step, .batch_step = shape_.tokens * shape_.y_step, .transposed = true};
    return library_->hipblasLtMatmulDescCreate_(&description_, HIPBLAS_COMPUTE_32F, HIP_R_32F) ==
               HIPBLAS_STATUS_SUCCESS &&
           describe(HIPBLASLT_MATMUL_DESC_TRANSA, w_transpose) && describe(HIPBLASLT_MATMUL_DESC_TRANSB, x_transpose) &&
           describe(HIPBLASLT_MATMUL_DESC_EPILOGUE, epilogue) &&
           (!shape_.bias || describe(HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type)) &&
           lay_out(w_, shape_.dtype, shape_.w, shape_.rows, shape_.depth) &&
           lay_out(x_, shape_.dtype, shape_.x, shape_.tokens, shape_.depth) &&
           lay_out(y_, shape_.result, y, shape_.rows, shape_.tokens) && choose();
  }

  void run(hipStream_t stream, const api::GemmOperands& o) const override {
    const float beta = o.addend == nullptr ? 0 : 1;
    std::unique_lock lock(mutex_, std::defer_lock);
    if (shape_.bias) lock.lock();  // the description has its address, also for another stream's call
    const bool described = !shape_.bias || describe(HIPBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias);
    const hipblasStatus_t status =
        !described ? HIPBLAS_STATUS_INVALID_VALUE
                   : library_->hipblasLtMatmul_(library_->handle, description_, &shape_.alpha, o.w, w_, o.x, x_, &beta,
                                                o.addend == nullptr ? o.y : o.addend, y_, o.y, y_, &algorithm_,
                                                library_->workspace(stream), Workspace::kBytes, stream);
    if (status != HIPBLAS_STATUS_SUCCESS) {
      throw ApiError(abi::StatusCode::kFailed,
                     fmt::format("rocm: multiplying with hipBLASLt: status {}", static_cast<int>(status)));
    }
  }

 private:
  template <class Value>
  bool describe(hipblasLtMatmulDescAttributes_t attribute, const Value& value) const {
    return library_->hipblasLtMatmulDescSetAttribute_(description_, attribute, &value, sizeof value) ==
           HIPBLAS_STATUS_SUCCESS;
  }

  // A matrix [lines][depth], or [depth][lines] if transposed; the library's first axis is the contiguous one.
  bool lay_out(hipblasLtMatrixLayout_t& layout, DType dtype, const api::Factor& factor, int64_t lines,
               int64_t depth) const {
    const auto first = static_cast<uint64_t>(factor.transposed ? lines : depth),
               second = static_cast<uint64_t>(factor.transposed ? depth : lines);
    const auto set = [&](hipblasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      return library_->hipblasLtMatrixLayoutSetAttribute_(layout, attribute, &value, sizeof value) ==
             HIPBLAS_STATUS_SUCCESS;
    };
    const auto batches = static_cast<int32_t>(shape_.batches);
    return library_->hipblasLtMatrixLayoutCreate_(&layout, type_of(dtype), first, second, factor.step) ==
               HIPBLAS_STATUS_SUCCESS &&
           (batches == 1 || (set(HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches) &&
                             set(HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, factor.batch_step)));
  }

  bool choose() {
    hipblasLtMatmulPreference_t preference = nullptr;
    if (library_->hipblasLtMatmulPreferenceCreate_(&preference) != HIPBLAS_STATUS_SUCCESS) return false;
    const uint64_t workspace = Workspace::kBytes;
    hipblasLtMatmulHeuristicResult_t result;
    int found = 0;
    const bool chosen =
        library_->hipblasLtMatmulPreferenceSetAttribute_(preference, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                         &workspace, sizeof workspace) == HIPBLAS_STATUS_SUCCESS &&
        library_->hipblasLtMatmulAlgoGetHeuristic_(library_->handle, description_, w_, x_, y_, y_, preference, 1,
                                                   &result, &found) == HIPBLAS_STATUS_SUCCESS &&
        found == 1 && result.state == HIPBLAS_STATUS_SUCCESS;
    static_cast<void>(library_->hipblasLtMatmulPreferenceDestroy_(preference));
    algorithm_ = result.algo;
    return chosen;
  }

  std::shared_ptr<const Hipblaslt> library_;
  GemmShape shape_;
  hipblasLtMatmulDesc_t description_ = nullptr;
  hipblasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
  hipblasLtMatmulAlgo_t algorithm_;
  mutable std::mutex mutex_;
};

std::unique_ptr<LibraryProduct> Hipblaslt::make(const GemmShape& shape) {
  auto product = std::make_unique<HipblasltProduct>(shared_from_this(), shape);
  if (!product->prepare()) return nullptr;
  return product;
}

}  // namespace

std::shared_ptr<ProductLibrary> make_hipblaslt() { return std::make_shared<Hipblaslt>(); }

}  // namespace gabbro::gpu::hip
