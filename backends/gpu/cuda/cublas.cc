#include "backends/gpu/cuda/cublas.h"

#include <cublasLt.h>

#include <mutex>

#include <fmt/format.h>

#include "backends/gpu/cuda/library.h"

namespace gabbro::gpu::api {
namespace {

// The library's functions that we call. A macro, since each has a different type.
// clang-format off
#define GABBRO_LIBRARY_FUNCTIONS(X) \
  X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) \
  X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy) X(cublasLtMatrixLayoutSetAttribute) \
  X(cublasLtMatmulPreferenceCreate) X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmul) X(cublasLtGetVersion)
// clang-format on

class Library {
 public:
#define GABBRO_APPLY(function) decltype(&::function) function##_ = nullptr;
  GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY

  // Null: none that works.
  static const Library* get() {
    static const Library library;
    return library.has_all_ ? &library : nullptr;
  }

 private:
  Library() {
    void* library = open_library({"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"});
    if (library == nullptr) return;
#define GABBRO_APPLY(function)                                                        \
  function##_ = reinterpret_cast<decltype(function##_)>(::dlsym(library, #function)); \
  if (function##_ == nullptr) return;
    GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
    has_all_ = true;
  }

  bool has_all_ = false;
};

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::f32 ? CUDA_R_32F : dtype == DType::f16 ? CUDA_R_16F : CUDA_R_16BF;
}

cublasLtEpilogue_t epilogue_of(const GemmShape& shape) {
  switch (shape.activation) {
    case Activation::kRelu:
      return shape.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGeluTanh:
      return shape.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Activation::kSilu:
    case Activation::kNone:
      break;
  }
  return shape.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// The library counts columns first: our row-major y is its yᵀ [rows, tokens] = wᵀᵀ·xᵀ.
class PreparedProduct final : public CublasProduct {
 public:
  PreparedProduct(const Library& library, cublasLtHandle_t handle, const GemmShape& shape)
      : library_(library), handle_(handle), shape_(shape) {}
  ~PreparedProduct() override {
    for (cublasLtMatrixLayout_t layout : {w_, x_, y_}) {
      if (layout != nullptr) library_.cublasLtMatrixLayoutDestroy_(layout);
    }
    if (description_ != nullptr) library_.cublasLtMatmulDescDestroy_(description_);
  }
  PreparedProduct(const PreparedProduct&) = delete;
  PreparedProduct& operator=(const PreparedProduct&) = delete;

  // False where the library takes no such product.
  bool prepare() {
    const cublasOperation_t w_transpose = shape_.w.transposed ? CUBLAS_OP_N : CUBLAS_OP_T,
                            x_transpose = shape_.x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = epilogue_of(shape_);
    return library_.cublasLtMatmulDescCreate_(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           describe(CUBLASLT_MATMUL_DESC_TRANSA, w_transpose) && describe(CUBLASLT_MATMUL_DESC_TRANSB, x_transpose) &&
           describe(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue) && lay_out(w_, shape_.dtype, shape_.w, shape_.rows) &&
           lay_out(x_, shape_.dtype, shape_.x, shape_.tokens) &&
           lay_out(y_, shape_.result,
                   {.step = shape_.y_step, .batch_step = shape_.tokens * shape_.y_step, .transposed = true},
                   shape_.rows, shape_.tokens) &&
           choose(kAlignment, aligned_) && choose(static_cast<uint32_t>(dtype_bytes(shape_.dtype, 1)), unaligned_);
  }

  void run(CUstream stream, const GemmOperands& o, void* workspace) const override {
    const float beta = o.addend == nullptr ? 0 : 1;
    const bool aligned =
        ((reinterpret_cast<uintptr_t>(o.w) | reinterpret_cast<uintptr_t>(o.x) | reinterpret_cast<uintptr_t>(o.y) |
          reinterpret_cast<uintptr_t>(o.addend) | reinterpret_cast<uintptr_t>(o.bias)) &
         (kAlignment - 1)) == 0;
    std::unique_lock lock(mutex_, std::defer_lock);
    if (shape_.bias) lock.lock();  // the description has its address, also for another stream's call
    const bool described = !shape_.bias || describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias);
    const cublasStatus_t status =
        !described ? CUBLAS_STATUS_INVALID_VALUE
                   : library_.cublasLtMatmul_(handle_, description_, &shape_.alpha, o.w, w_, o.x, x_, &beta,
                                              o.addend == nullptr ? o.y : o.addend, y_, o.y, y_,
                                              aligned ? &aligned_ : &unaligned_, workspace, kCublasWorkspace,
                                              reinterpret_cast<cudaStream_t>(stream));
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw ApiError(abi::StatusCode::kFailed,
                     fmt::format("cuda: multiplying with cuBLASLt: status {}", static_cast<int>(status)));
    }
  }

 private:
  static constexpr uint32_t kAlignment = 256;  // bytes, the usual alignment of operands

  template <class Value>
  bool describe(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    return library_.cublasLtMatmulDescSetAttribute_(description_, attribute, &value, sizeof value) ==
           CUBLAS_STATUS_SUCCESS;
  }

  // A matrix [lines][depth], or [depth][lines] if transposed; the library's first axis is the contiguous one.
  bool lay_out(cublasLtMatrixLayout_t& layout, DType dtype, const Factor& factor, int64_t lines) const {
    return lay_out(layout, dtype, factor, lines, shape_.depth);
  }
  bool lay_out(cublasLtMatrixLayout_t& layout, DType dtype, const Factor& factor, int64_t lines, int64_t depth) const {
    const auto first = static_cast<uint64_t>(factor.transposed ? lines : depth),
               second = static_cast<uint64_t>(factor.transposed ? depth : lines);
    const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      return library_.cublasLtMatrixLayoutSetAttribute_(layout, attribute, &value, sizeof value) ==
             CUBLAS_STATUS_SUCCESS;
    };
    const auto batches = static_cast<int32_t>(shape_.batches);
    return library_.cublasLtMatrixLayoutCreate_(&layout, type_of(dtype), first, second, factor.step) ==
               CUBLAS_STATUS_SUCCESS &&
           (batches == 1 || (set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches) &&
                             set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, factor.batch_step)));
  }

  // The algorithm that the library's heuristic ranks first for operands aligned to `alignment` bytes.
  bool choose(uint32_t alignment, cublasLtMatmulAlgo_t& algorithm) {
    cublasLtMatmulPreference_t preference = nullptr;
    if (library_.cublasLtMatmulPreferenceCreate_(&preference) != CUBLAS_STATUS_SUCCESS) return false;
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return library_.cublasLtMatmulPreferenceSetAttribute_(preference, attribute, &value, sizeof value) ==
             CUBLAS_STATUS_SUCCESS;
    };
    cublasLtMatmulHeuristicResult_t result = {};
    int found = 0;
    const bool chosen = prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kCublasWorkspace) &&
                        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment) &&
                        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment) &&
                        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment) &&
                        prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment) &&
                        library_.cublasLtMatmulAlgoGetHeuristic_(handle_, description_, w_, x_, y_, y_, preference, 1,
                                                                 &result, &found) == CUBLAS_STATUS_SUCCESS &&
                        found == 1 && result.state == CUBLAS_STATUS_SUCCESS;
    library_.cublasLtMatmulPreferenceDestroy_(preference);
    algorithm = result.algo;
    return chosen;
  }

  const Library& library_;
  const cublasLtHandle_t handle_;
  GemmShape shape_;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
  cublasLtMatmulAlgo_t aligned_ = {}, unaligned_ = {};
  mutable std::mutex mutex_;
};

class OpenedLibrary final : public CublasLibrary {
 public:
  OpenedLibrary(const Library& library, cublasLtHandle_t handle) : library_(library), handle_(handle) {}
  ~OpenedLibrary() override { library_.cublasLtDestroy_(handle_); }
  OpenedLibrary(const OpenedLibrary&) = delete;
  OpenedLibrary& operator=(const OpenedLibrary&) = delete;

  std::unique_ptr<CublasProduct> make(const GemmShape& shape) override {
    if (shape.activation == Activation::kSilu) return nullptr;
    auto product = std::make_unique<PreparedProduct>(library_, handle_, shape);
    if (!product->prepare()) return nullptr;
    return product;
  }

 private:
  const Library& library_;
  const cublasLtHandle_t handle_;
};

}  // namespace

std::string cublas_version() {
  const Library* library = Library::get();
  return library == nullptr ? "" : version_text(library->cublasLtGetVersion_());
}

std::unique_ptr<CublasLibrary> open_cublas() {
  const Library* library = Library::get();
  cublasLtHandle_t handle = nullptr;
  if (library == nullptr || library->cublasLtCreate_(&handle) != CUBLAS_STATUS_SUCCESS) return nullptr;
  return std::make_unique<OpenedLibrary>(*library, handle);
}

}  // namespace gabbro::gpu::api
