#include "backends/gpu/cuda/cudnn.h"

#include <array>
#include <mutex>
#include <span>

#include <fmt/format.h>

#include "backends/gpu/cuda/cudnn_graph.h"
#include "backends/gpu/cuda/cudnn_library.h"
#include "backends/gpu/cuda/library.h"

namespace gabbro::gpu::api {
namespace {

class CudnnConvolution final : public LibraryConvolution {
 public:
  explicit CudnnConvolution(std::shared_ptr<CudnnHandle> shared) : shared_(std::move(shared)) {}
  ~CudnnConvolution() override {
    const CudnnFunctions& f = shared_->functions;
    for (cudnn::TensorDescriptor* tensor : {x_, y_}) {
      if (tensor != nullptr) f.cudnnDestroyTensorDescriptor_(tensor);
    }
    if (w_ != nullptr) f.cudnnDestroyFilterDescriptor_(w_);
    if (convolution_ != nullptr) f.cudnnDestroyConvolutionDescriptor_(convolution_);
  }
  CudnnConvolution(const CudnnConvolution&) = delete;
  CudnnConvolution& operator=(const CudnnConvolution&) = delete;

  // False where the library takes no such convolution.
  bool prepare(DType dtype, const ConvDimensions& d, bool transposed) {
    const CudnnFunctions& f = shared_->functions;
    transposed_ = transposed;
    const cudnn::DataType type = cudnn_type(dtype);
    const cudnn::MathType math = dtype == DType::f32 ? cudnn::kFma : cudnn::kTensorOp;
    const std::lock_guard lock(shared_->mutex);
    return f.cudnnCreateTensorDescriptor_(&x_) == cudnn::kSuccess &&
           f.cudnnCreateTensorDescriptor_(&y_) == cudnn::kSuccess &&
           f.cudnnCreateFilterDescriptor_(&w_) == cudnn::kSuccess &&
           f.cudnnCreateConvolutionDescriptor_(&convolution_) == cudnn::kSuccess &&
           f.cudnnSetTensorNdDescriptor_(x_, type, d.rank, d.x, d.x_strides) == cudnn::kSuccess &&
           f.cudnnSetTensorNdDescriptor_(y_, type, d.rank, d.y, d.y_strides) == cudnn::kSuccess &&
           f.cudnnSetFilterNdDescriptor_(w_, type, cudnn::kNchw, d.rank, d.w) == cudnn::kSuccess &&
           f.cudnnSetConvolutionNdDescriptor_(convolution_, d.spatial, d.padding, d.stride, d.dilation,
                                              cudnn::kCrossCorrelation, cudnn::kFloat) == cudnn::kSuccess &&
           f.cudnnSetConvolutionGroupCount_(convolution_, d.groups) == cudnn::kSuccess &&
           f.cudnnSetConvolutionMathType_(convolution_, math) == cudnn::kSuccess && choose(math);
  }

  size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(void* stream, const void* x, const void* w, void* y, void* scratch) const override {
    const CudnnFunctions& f = shared_->functions;
    const float one = 1, zero = 0;
    const std::lock_guard lock(shared_->mutex);
    cudnn::Status status = f.cudnnSetStream_(shared_->handle, stream);
    if (status == cudnn::kSuccess) {
      status = transposed_ ? f.cudnnConvolutionBackwardData_(shared_->handle, &one, w_, w, y_, x, convolution_,
                                                             algorithm_, scratch, scratch_bytes_, &zero, x_, y)
                           : f.cudnnConvolutionForward_(shared_->handle, &one, x_, x, w_, w, convolution_, algorithm_,
                                                        scratch, scratch_bytes_, &zero, y_, y);
    }
    if (status != cudnn::kSuccess) {
      throw ApiError(abi::StatusCode::kFailed,
                     fmt::format("cuda: convolving with cuDNN: status {}", static_cast<int>(status)));
    }
  }

 private:
  // The first of the library's own ranking that can run in the memory that it may take. The ranking computes nothing.
  bool choose(cudnn::MathType math) {
    std::array<cudnn::AlgorithmResult, cudnn::kAlgorithms> results{};
    int found = 0;
    const CudnnFunctions& f = shared_->functions;
    const cudnn::Status status =
        transposed_ ? f.cudnnGetConvolutionBackwardDataAlgorithm_v7_(shared_->handle, w_, y_, convolution_, x_,
                                                                     cudnn::kAlgorithms, &found, results.data())
                    : f.cudnnGetConvolutionForwardAlgorithm_v7_(shared_->handle, x_, w_, convolution_, y_,
                                                                cudnn::kAlgorithms, &found, results.data());
    if (status != cudnn::kSuccess) return false;
    for (const cudnn::AlgorithmResult& result : std::span(results).first(static_cast<size_t>(found))) {
      if (result.status != cudnn::kSuccess || result.memory > kMaxConvScratch) continue;
      algorithm_ = result.algorithm;
      scratch_bytes_ = result.memory;
      // An algorithm for f16 may be one without matrix cores; f32 stays f32.
      const auto own = math == cudnn::kFma ? math : static_cast<cudnn::MathType>(result.math_type);
      return f.cudnnSetConvolutionMathType_(convolution_, own) == cudnn::kSuccess;
    }
    return false;
  }

  std::shared_ptr<CudnnHandle> shared_;
  cudnn::TensorDescriptor* x_ = nullptr;
  cudnn::TensorDescriptor* y_ = nullptr;
  cudnn::FilterDescriptor* w_ = nullptr;
  cudnn::ConvolutionDescriptor* convolution_ = nullptr;
  bool transposed_ = false;  // x_ is what comes out
  int algorithm_ = 0;
  size_t scratch_bytes_ = 0;
};

class Cudnn final : public ConvolutionLibrary {
 public:
  explicit Cudnn(std::shared_ptr<CudnnHandle> shared) : shared_(std::move(shared)) {}

  std::unique_ptr<LibraryConvolution> make(const ConvShape& shape, bool) override {
    const auto dimensions = dimensions_of(shape);
    if (!dimensions) return nullptr;
    // The graph API has faster algorithms for f16. For f32 it does not say beforehand which ones round to TF32.
    if (shape.dtype != DType::f32) {
      if (auto convolution = make_cudnn_graph(shared_, shape)) return convolution;
    }
    auto convolution = std::make_unique<CudnnConvolution>(shared_);
    return convolution->prepare(shape.dtype, *dimensions, shape.transposed) ? std::move(convolution) : nullptr;
  }

 private:
  std::shared_ptr<CudnnHandle> shared_;
};

}  // namespace

std::string cudnn_version() {
  const CudnnFunctions* functions = CudnnFunctions::get();
  return functions == nullptr ? "" : version_text(functions->cudnnGetVersion_());
}

std::unique_ptr<ConvolutionLibrary> open_cudnn() {
  const CudnnFunctions* functions = CudnnFunctions::get();
  if (functions == nullptr) return nullptr;
  auto shared = std::make_shared<CudnnHandle>(*functions);
  if (functions->cudnnCreate_(&shared->handle) != cudnn::kSuccess) return nullptr;
  return std::make_unique<Cudnn>(std::move(shared));
}

}  // namespace gabbro::gpu::api
