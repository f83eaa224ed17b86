#include "backends/gpu/cuda/cublas.h"

#include <cublasLt.h>

#include <fmt/format.h>

#include "backends/gpu/cuda/library.h"

namespace gabbro::gpu::api {
namespace {

// The library's functions that we call. A macro, since each has a type of its own.
// clang-format off
#define GABBRO_LIBRARY_FUNCTIONS(X) \
  X(cublasLtCreate) X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) \
  X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy) X(cublasLtMatmulPreferenceCreate) \
  X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) X(cublasLtMatmulAlgoGetHeuristic) \
  X(cublasLtMatmul) X(cublasLtGetVersion)
// clang-format on

class Library {
 public:
#define GABBRO_APPLY(function) decltype(&::function) function##_ = nullptr;
  GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
  cublasLtHandle_t handle = nullptr;

  // Null where there is none that works.
  static const Library* get() {
    static const Library library;
    return library.handle != nullptr ? &library : nullptr;
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
    if (cublasLtCreate_(&handle) != CUBLAS_STATUS_SUCCESS) handle = nullptr;
  }
};

// The library counts columns first: our row-major y is its yᵀ [rows, tokens] = wᵀᵀ·xᵀ.
class PreparedProduct final : public CublasProduct {
 public:
  explicit PreparedProduct(const Library& library) : library_(library) {}
  ~PreparedProduct() override {
    for (cublasLtMatrixLayout_t layout : {w_, x_, y_}) {
      if (layout != nullptr) library_.cublasLtMatrixLayoutDestroy_(layout);
    }
    if (description_ != nullptr) library_.cublasLtMatmulDescDestroy_(description_);
  }
  PreparedProduct(const PreparedProduct&) = delete;
  PreparedProduct& operator=(const PreparedProduct&) = delete;

  // False where the library takes no such product.
  bool prepare(const ProductShape& shape) {
    alpha_ = shape.alpha;
    const auto rows = static_cast<uint64_t>(shape.rows), tokens = static_cast<uint64_t>(shape.tokens),
               depth = static_cast<uint64_t>(shape.depth);
    const cublasOperation_t turned = CUBLAS_OP_T;
    return library_.cublasLtMatmulDescCreate_(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           library_.cublasLtMatmulDescSetAttribute_(description_, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                                    sizeof turned) == CUBLAS_STATUS_SUCCESS &&
           library_.cublasLtMatrixLayoutCreate_(&w_, CUDA_R_16F, depth, rows, shape.w_step) == CUBLAS_STATUS_SUCCESS &&
           library_.cublasLtMatrixLayoutCreate_(&x_, CUDA_R_16F, depth, tokens, shape.x_step) ==
               CUBLAS_STATUS_SUCCESS &&
           library_.cublasLtMatrixLayoutCreate_(&y_, CUDA_R_32F, rows, tokens, shape.y_step) == CUBLAS_STATUS_SUCCESS &&
           choose();
  }

  void run(CUstream stream, const void* w, const void* x, const float* addend, float* y,
           void* workspace) const override {
    const float beta = addend == nullptr ? 0 : 1;
    const cublasStatus_t status = library_.cublasLtMatmul_(
        library_.handle, description_, &alpha_, w, w_, x, x_, &beta, addend == nullptr ? y : addend, y_, y, y_,
        &algorithm_, workspace, kCublasWorkspace, reinterpret_cast<cudaStream_t>(stream));
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw ApiError(abi::StatusCode::kFailed,
                     fmt::format("cuda: multiplying with cuBLASLt: status {}", static_cast<int>(status)));
    }
  }

 private:
  // The algorithm that the library's own heuristic ranks first.
  bool choose() {
    cublasLtMatmulPreference_t preference = nullptr;
    if (library_.cublasLtMatmulPreferenceCreate_(&preference) != CUBLAS_STATUS_SUCCESS) return false;
    size_t workspace = kCublasWorkspace;
    cublasLtMatmulHeuristicResult_t result = {};
    int found = 0;
    const bool chosen =
        library_.cublasLtMatmulPreferenceSetAttribute_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                       sizeof workspace) == CUBLAS_STATUS_SUCCESS &&
        library_.cublasLtMatmulAlgoGetHeuristic_(library_.handle, description_, w_, x_, y_, y_, preference, 1, &result,
                                                 &found) == CUBLAS_STATUS_SUCCESS &&
        found == 1 && result.state == CUBLAS_STATUS_SUCCESS;
    library_.cublasLtMatmulPreferenceDestroy_(preference);
    algorithm_ = result.algo;
    return chosen;
  }

  const Library& library_;
  float alpha_ = 1;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace

std::string cublas_version() {
  const Library* library = Library::get();
  return library == nullptr ? "" : version_text(library->cublasLtGetVersion_());
}

std::unique_ptr<CublasProduct> make_cublas_product(const ProductShape& shape) {
  const Library* library = Library::get();
  if (library == nullptr) return nullptr;
  auto product = std::make_unique<PreparedProduct>(*library);
  if (!product->prepare(shape)) return nullptr;
  return product;
}

}  // namespace gabbro::gpu::api
