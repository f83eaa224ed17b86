// hipBLASLt: one handle for a device, and for each shape the algorithm that the library's own heuristic ranks first.
#include <hipblaslt/hipblaslt.h>

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/hip/library.h"
#include "backends/gpu/hip/products.h"
#include "backends/gpu/hip/runtime.h"
#include "backends/gpu/hip/tensile_files.h"

namespace gabbro::gpu::hip {
namespace {

// The library's functions that we call. A macro, since each has a type of its own.
// clang-format off
#define GABBRO_LIBRARY_FUNCTIONS(X) \
  X(hipblasLtCreate) X(hipblasLtDestroy) X(hipblasLtGetVersion) X(hipblasLtMatmulDescCreate) X(hipblasLtMatmulDescDestroy) \
  X(hipblasLtMatmulDescSetAttribute) X(hipblasLtMatrixLayoutCreate) X(hipblasLtMatrixLayoutDestroy) \
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

  bool open(std::string_view target) {
    // The one of ROCm 7; that of ROCm 6 has another binary interface.
    if (runtime().version() / 10000000 < 7) return false;
    void* library = open_library({"libhipblaslt.so.1"});
    if (library == nullptr) return false;
#define GABBRO_APPLY(function) \
  if (!find_function(library, #function, function##_)) return false;
    GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
    const auto folders = tensile_folders(path_of(reinterpret_cast<void*>(hipblasLtCreate_)), "hipblaslt",
                                         std::getenv("HIPBLASLT_TENSILE_LIBPATH"));
    if (!has_tensile_files(folders, target)) return false;
    workspace_ = Workspace::make();
    return workspace_ != nullptr && hipblasLtCreate_(&handle) == HIPBLAS_STATUS_SUCCESS;
  }

  // Counted as 100000 · major + 100 · minor + patch.
  std::string version() const override {
    int number = 0;
    if (hipblasLtGetVersion_(handle, &number) != HIPBLAS_STATUS_SUCCESS) return "of an unknown version";
    return fmt::format("{}.{}.{}", number / 100000, number / 100 % 1000, number % 100);
  }
  std::unique_ptr<LibraryProduct> make(const ProductShape& shape) override;
  void* workspace() const { return workspace_->memory(); }

 private:
  std::shared_ptr<Workspace> workspace_;
};

// The library counts columns first: our row-major y is its yᵀ [rows, tokens] = wᵀᵀ·xᵀ.
class HipblasltProduct final : public LibraryProduct {
 public:
  explicit HipblasltProduct(std::shared_ptr<const Hipblaslt> library) : library_(std::move(library)) {}
  ~HipblasltProduct() override {
    for (hipblasLtMatrixLayout_t layout : {w_, x_, y_}) {
      if (layout != nullptr) static_cast<void>(library_->hipblasLtMatrixLayoutDestroy_(layout));
    }
    if (description_ != nullptr) static_cast<void>(library_->hipblasLtMatmulDescDestroy_(description_));
  }
  HipblasltProduct(const HipblasltProduct&) = delete;
  HipblasltProduct& operator=(const HipblasltProduct&) = delete;

  // False where the library takes no such product.
  bool prepare(const ProductShape& shape) {
    alpha_ = shape.alpha;
    const auto rows = static_cast<uint64_t>(shape.rows), tokens = static_cast<uint64_t>(shape.tokens),
               depth = static_cast<uint64_t>(shape.depth);
    const int32_t turned = HIPBLAS_OP_T;
    const auto lays_out = [&](hipblasLtMatrixLayout_t& layout, hipDataType type, uint64_t lines, uint64_t columns,
                              int64_t step) {
      return library_->hipblasLtMatrixLayoutCreate_(&layout, type, lines, columns, step) == HIPBLAS_STATUS_SUCCESS;
    };
    return library_->hipblasLtMatmulDescCreate_(&description_, HIPBLAS_COMPUTE_32F, HIP_R_32F) ==
               HIPBLAS_STATUS_SUCCESS &&
           library_->hipblasLtMatmulDescSetAttribute_(description_, HIPBLASLT_MATMUL_DESC_TRANSA, &turned,
                                                      sizeof turned) == HIPBLAS_STATUS_SUCCESS &&
           lays_out(w_, HIP_R_16F, depth, rows, shape.w_step) && lays_out(x_, HIP_R_16F, depth, tokens, shape.x_step) &&
           lays_out(y_, HIP_R_32F, rows, tokens, shape.y_step) && choose();
  }

  void run(hipStream_t stream, const void* w, const void* x, const float* addend, float* y) const override {
    const float beta = addend == nullptr ? 0 : 1;
    const hipblasStatus_t status = library_->hipblasLtMatmul_(
        library_->handle, description_, &alpha_, w, w_, x, x_, &beta, addend == nullptr ? y : addend, y_, y, y_,
        &algorithm_, library_->workspace(), Workspace::kBytes, stream);
    if (status != HIPBLAS_STATUS_SUCCESS) {
      throw ApiError(abi::StatusCode::kFailed,
                     fmt::format("rocm: multiplying with hipBLASLt: status {}", static_cast<int>(status)));
    }
  }

 private:
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
  float alpha_ = 1;
  hipblasLtMatmulDesc_t description_ = nullptr;
  hipblasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
  hipblasLtMatmulAlgo_t algorithm_;
};

std::unique_ptr<LibraryProduct> Hipblaslt::make(const ProductShape& shape) {
  auto product = std::make_unique<HipblasltProduct>(shared_from_this());
  if (!product->prepare(shape)) return nullptr;
  return product;
}

}  // namespace

std::shared_ptr<ProductLibrary> open_hipblaslt(std::string_view target) {
  auto library = std::make_shared<Hipblaslt>();
  return library->open(target) ? library : nullptr;
}

}  // namespace gabbro::gpu::hip
