#include "backends/gpu/hip/miopen.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/hip/library.h"
#include "backends/gpu/hip/miopen_entry_points.h"
#include "backends/gpu/hip/runtime.h"

namespace gabbro::gpu::hip {
namespace {

// clang-format off
#define GABBRO_LIBRARY_FUNCTIONS(X) \
  X(miopenGetVersion) X(miopenCreate) X(miopenDestroy) X(miopenSetStream) X(miopenCreateTensorDescriptor) \
  X(miopenDestroyTensorDescriptor) X(miopenSetTensorDescriptor) X(miopenCreateConvolutionDescriptor) \
  X(miopenDestroyConvolutionDescriptor) X(miopenInitConvolutionNdDescriptor) X(miopenSetConvolutionGroupCount) \
  X(miopenConvolutionForwardGetSolution) X(miopenConvolutionForwardCompileSolution) \
  X(miopenConvolutionForwardImmediate) X(miopenConvolutionForwardGetWorkSpaceSize) \
  X(miopenFindConvolutionForwardAlgorithm)
// clang-format on

// The library's functions, for all devices.
class Functions {
 public:
#define GABBRO_APPLY(function) miopen::function* function##_ = nullptr;
  GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY

  // Null where there is no library.
  static const Functions* get() {
    static const Functions functions;
    return functions.works_ ? &functions : nullptr;
  }

 private:
  Functions() {
    void* library = open_library({"libMIOpen.so.1"});
    if (library == nullptr) return;
#define GABBRO_APPLY(function) \
  if (!find_function(library, #function, function##_)) return;
    GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
    works_ = true;
  }
  bool works_ = false;
};

// A handle of the library, which only one thread may use at a time.
struct Shared {
  explicit Shared(const Functions& all) : functions(all) {}
  ~Shared() {
    if (handle != nullptr) functions.miopenDestroy_(handle);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  const Functions& functions;
  miopen::Handle* handle = nullptr;
  std::mutex mutex;
};

// Memory of the search, released at its end.
class SearchMemory {
 public:
  explicit SearchMemory(size_t bytes) {
    if (runtime().hipMalloc_(&memory_, bytes) != hipSuccess) memory_ = nullptr;
  }
  ~SearchMemory() {
    if (memory_ != nullptr) static_cast<void>(runtime().hipFree_(memory_));
  }
  SearchMemory(const SearchMemory&) = delete;
  SearchMemory& operator=(const SearchMemory&) = delete;
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

class MiopenConvolution final : public LibraryConvolution {
 public:
  explicit MiopenConvolution(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  ~MiopenConvolution() override {
    for (miopen::TensorDescriptor* tensor : {x_, w_, y_}) {
      if (tensor != nullptr) shared_->functions.miopenDestroyTensorDescriptor_(tensor);
    }
    if (convolution_ != nullptr) shared_->functions.miopenDestroyConvolutionDescriptor_(convolution_);
  }
  MiopenConvolution(const MiopenConvolution&) = delete;
  MiopenConvolution& operator=(const MiopenConvolution&) = delete;

  // False where the library takes no such convolution.
  bool prepare(DType dtype, const ConvDimensions& d, bool search_first) {
    const Functions& f = shared_->functions;
    const miopen::DataType type = dtype == DType::f32   ? miopen::kFloat
                                  : dtype == DType::f16 ? miopen::kHalf
                                                        : miopen::kBFloat16;
    const std::lock_guard lock(shared_->mutex);
    const bool described = f.miopenCreateTensorDescriptor_(&x_) == miopen::kSuccess &&
                           f.miopenCreateTensorDescriptor_(&w_) == miopen::kSuccess &&
                           f.miopenCreateTensorDescriptor_(&y_) == miopen::kSuccess &&
                           f.miopenCreateConvolutionDescriptor_(&convolution_) == miopen::kSuccess &&
                           f.miopenSetTensorDescriptor_(x_, type, d.rank, d.x, d.x_strides) == miopen::kSuccess &&
                           f.miopenSetTensorDescriptor_(w_, type, d.rank, d.w, d.w_strides) == miopen::kSuccess &&
                           f.miopenSetTensorDescriptor_(y_, type, d.rank, d.y, d.y_strides) == miopen::kSuccess &&
                           f.miopenInitConvolutionNdDescriptor_(convolution_, d.spatial, d.padding, d.stride,
                                                                d.dilation, miopen::kConvolution) == miopen::kSuccess &&
                           f.miopenSetConvolutionGroupCount_(convolution_, d.groups) == miopen::kSuccess;
    if (!described) return false;
    if (search_first) search(dtype, d);
    return choose();
  }

  size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(void* stream, const void* x, const void* w, void* y, void* scratch) const override {
    const Functions& f = shared_->functions;
    const std::lock_guard lock(shared_->mutex);
    miopen::Status status = f.miopenSetStream_(shared_->handle, stream);
    if (status == miopen::kSuccess) {
      status = f.miopenConvolutionForwardImmediate_(shared_->handle, w_, w, x_, x, convolution_, y_, y, scratch,
                                                    scratch_bytes_, solution_);
    }
    if (status != miopen::kSuccess) {
      throw ApiError(abi::StatusCode::kFailed,
                     fmt::format("rocm: convolving with MIOpen: status {}", static_cast<int>(status)));
    }
  }

 private:
  // The first of the library's own ranking that can be compiled and runs in the memory that it may take.
  bool choose() {
    const Functions& f = shared_->functions;
    std::array<miopen::Solution, 16> solutions{};
    size_t found = 0;
    if (f.miopenConvolutionForwardGetSolution_(shared_->handle, w_, x_, convolution_, y_, solutions.size(), &found,
                                               solutions.data()) != miopen::kSuccess)
      return false;
    for (const miopen::Solution& solution : std::span(solutions).first(std::min(found, solutions.size()))) {
      if (solution.workspace_bytes > kMaxConvScratch) continue;
      if (f.miopenConvolutionForwardCompileSolution_(shared_->handle, w_, x_, convolution_, y_, solution.id) !=
          miopen::kSuccess)
        continue;
      solution_ = solution.id;
      scratch_bytes_ = solution.workspace_bytes;
      return true;
    }
    return false;
  }

  // MIOpen keeps what it finds, and ranks it first from then on. Without memory for it, nothing is found.
  void search(DType dtype, const ConvDimensions& d) {
    const Functions& f = shared_->functions;
    const auto bytes_of = [&](const int(&lengths)[5]) {
      size_t count = 1;
      for (int i = 0; i < d.rank; ++i) count *= static_cast<size_t>(lengths[i]);
      return dtype_bytes(dtype, count);
    };
    size_t workspace = 0;
    if (f.miopenConvolutionForwardGetWorkSpaceSize_(shared_->handle, w_, x_, convolution_, y_, &workspace) !=
        miopen::kSuccess)
      return;
    const SearchMemory x(bytes_of(d.x)), w(bytes_of(d.w)), y(bytes_of(d.y)), scratch(std::max<size_t>(workspace, 1));
    if (x.get() == nullptr || w.get() == nullptr || y.get() == nullptr || scratch.get() == nullptr) return;
    miopen::SearchResult result{};
    int found = 0;
    static_cast<void>(f.miopenFindConvolutionForwardAlgorithm_(shared_->handle, x_, x.get(), w_, w.get(), convolution_,
                                                               y_, y.get(), 1, &found, &result, scratch.get(),
                                                               workspace, true));
  }

  std::shared_ptr<Shared> shared_;
  miopen::TensorDescriptor* x_ = nullptr;
  miopen::TensorDescriptor* w_ = nullptr;
  miopen::TensorDescriptor* y_ = nullptr;
  miopen::ConvolutionDescriptor* convolution_ = nullptr;
  uint64_t solution_ = 0;
  size_t scratch_bytes_ = 0;
};

class Miopen final : public ConvolutionLibrary {
 public:
  explicit Miopen(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::unique_ptr<LibraryConvolution> make(const api::ConvShape& shape, bool search) override {
    if (shape.transposed) return nullptr;
    const auto dimensions = dimensions_of(shape);
    if (!dimensions) return nullptr;
    auto convolution = std::make_unique<MiopenConvolution>(shared_);
    return convolution->prepare(shape.dtype, *dimensions, search) ? std::move(convolution) : nullptr;
  }

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace

std::string miopen_version() {
  const Functions* functions = Functions::get();
  size_t major = 0, minor = 0, patch = 0;
  if (functions == nullptr || functions->miopenGetVersion_(&major, &minor, &patch) != miopen::kSuccess) return {};
  return fmt::format("{}.{}.{}", major, minor, patch);
}

std::unique_ptr<ConvolutionLibrary> open_miopen() {
  const Functions* functions = Functions::get();
  if (functions == nullptr) return nullptr;
  auto shared = std::make_shared<Shared>(*functions);
  if (functions->miopenCreate_(&shared->handle) != miopen::kSuccess) return nullptr;
  return std::make_unique<Miopen>(std::move(shared));
}

}  // namespace gabbro::gpu::hip
