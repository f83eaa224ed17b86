#include "backends/gpu/cuda/cudnn_graph.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace gabbro::gpu::api {
namespace {

constexpr int64_t kX = 1, kW = 2, kY = 3;  // the tensors' numbers in the graph
constexpr int64_t kAlignment = 16;         // bytes, which the caller guarantees
constexpr int64_t kConfigurations = 16;    // of the heuristics' list, that are tried

// A descriptor under construction: what fails first is remembered.
class Descriptor {
 public:
  Descriptor(const CudnnFunctions& functions, cudnn::DescriptorType type) : functions_(functions) {
    good_ = functions_.cudnnBackendCreateDescriptor_(type, &descriptor_) == cudnn::kSuccess;
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) functions_.cudnnBackendDestroyDescriptor_(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept
      : functions_(other.functions_), descriptor_(std::exchange(other.descriptor_, nullptr)), good_(other.good_) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  template <class Value>
  Descriptor& set(cudnn::AttributeName name, cudnn::AttributeType type, const Value* values, int64_t count) {
    good_ = good_ && functions_.cudnnBackendSetAttribute_(descriptor_, name, type, count, values) == cudnn::kSuccess;
    return *this;
  }
  template <class Value>
  Descriptor& set(cudnn::AttributeName name, cudnn::AttributeType type, const Value& value) {
    return set(name, type, &value, 1);
  }
  Descriptor& set(cudnn::AttributeName name, const Descriptor& other) {
    good_ = good_ && other.good_;
    return set(name, cudnn::kOfDescriptor, other.descriptor_);
  }
  bool finish() {
    good_ = good_ && functions_.cudnnBackendFinalize_(descriptor_) == cudnn::kSuccess;
    return good_;
  }

  cudnn::BackendDescriptor* get() const { return descriptor_; }

 private:
  const CudnnFunctions& functions_;
  cudnn::BackendDescriptor* descriptor_ = nullptr;
  bool good_ = false;
};

// The zeros behind the last element: as many as before the first one, or what the results ask for.
int64_t padding_behind(const ConvShape& s, int axis) {
  const int64_t reach = s.dilation[axis] * (s.kernel[axis] - 1) + 1;
  const int64_t last = s.in[axis] + 2 * s.padding[axis] - reach;
  if (last >= 0 && last / s.stride[axis] + 1 == s.out[axis]) return s.padding[axis];
  return (s.out[axis] - 1) * s.stride[axis] + reach - s.in[axis] - s.padding[axis];
}

class GraphConvolution final : public LibraryConvolution {
 public:
  GraphConvolution(std::shared_ptr<CudnnHandle> shared, Descriptor plan, size_t scratch_bytes, bool transposed)
      : shared_(std::move(shared)), plan_(std::move(plan)), scratch_bytes_(scratch_bytes), transposed_(transposed) {}

  size_t scratch_bytes() const override { return scratch_bytes_; }

  void run(void* stream, const void* x, const void* w, void* y, void* scratch) const override {
    const CudnnFunctions& f = shared_->functions;
    const int64_t ids[] = {kX, kW, kY};
    const void* pointers[] = {transposed_ ? y : x, w, transposed_ ? x : y};
    const std::lock_guard lock(shared_->mutex);
    Descriptor pack(f, cudnn::kVariantPack);
    pack.set(cudnn::kPackIds, cudnn::kOfInt64, ids, 3).set(cudnn::kPackPointers, cudnn::kOfPointer, pointers, 3);
    pack.set(cudnn::kPackWorkspace, cudnn::kOfPointer, scratch);
    if (!pack.finish() || f.cudnnSetStream_(shared_->handle, stream) != cudnn::kSuccess ||
        f.cudnnBackendExecute_(shared_->handle, plan_.get(), pack.get()) != cudnn::kSuccess)
      throw ApiError(abi::StatusCode::kFailed, "cuda: convolving with cuDNN failed");
  }

 private:
  std::shared_ptr<CudnnHandle> shared_;
  Descriptor plan_;
  size_t scratch_bytes_;
  bool transposed_;
};

// Builds the graph of one convolution.
class GraphBuilder {
 public:
  GraphBuilder(const CudnnHandle& shared, const ConvShape& shape, const ConvDimensions& d)
      : f_(shared.functions), graph_(f_, cudnn::kOperationGraph) {
    tensors_.reserve(3);
    const cudnn::BackendDescriptor* x = tensor(kX, shape.dtype, d.rank, d.x, d.x_strides);
    const cudnn::BackendDescriptor* w = tensor(kW, shape.dtype, d.rank, d.w, d.w_strides);
    const cudnn::BackendDescriptor* y = tensor(kY, shape.dtype, d.rank, d.y, d.y_strides);
    int64_t stride[3], dilation[3], before[3], behind[3];
    for (int i = 0; i < d.spatial; ++i) {
      const int axis = 3 - d.spatial + i;
      stride[i] = shape.stride[axis];
      dilation[i] = shape.dilation[axis];
      before[i] = shape.padding[axis];
      behind[i] = padding_behind(shape, axis);
      good_ = good_ && behind[i] >= 0;
    }
    Descriptor convolution(f_, cudnn::kConvolution);
    const int64_t spatial = d.spatial;
    convolution.set(cudnn::kConvolutionSpatial, cudnn::kOfInt64, spatial)
        .set(cudnn::kConvolutionCompute, cudnn::kOfDataType, cudnn::kFloat)
        .set(cudnn::kConvolutionModeOf, cudnn::kOfConvolutionMode, cudnn::kCrossCorrelation)
        .set(cudnn::kConvolutionDilations, cudnn::kOfInt64, dilation, spatial)
        .set(cudnn::kConvolutionStrides, cudnn::kOfInt64, stride, spatial)
        .set(cudnn::kConvolutionPrePaddings, cudnn::kOfInt64, before, spatial)
        .set(cudnn::kConvolutionPostPaddings, cudnn::kOfInt64, behind, spatial);
    good_ = good_ && convolution.finish();
    const bool t = shape.transposed;
    const float one = 1, zero = 0;
    Descriptor operation(f_, t ? cudnn::kBackwardDataOperation : cudnn::kForwardOperation);
    operation.set(t ? cudnn::kBackwardAlpha : cudnn::kForwardAlpha, cudnn::kOfFloat, one)
        .set(t ? cudnn::kBackwardBeta : cudnn::kForwardBeta, cudnn::kOfFloat, zero)
        .set(t ? cudnn::kBackwardConvolution : cudnn::kForwardConvolution, convolution)
        .set(t ? cudnn::kBackwardDx : cudnn::kForwardX, cudnn::kOfDescriptor, x)
        .set(t ? cudnn::kBackwardW : cudnn::kForwardW, cudnn::kOfDescriptor, w)
        .set(t ? cudnn::kBackwardDy : cudnn::kForwardY, cudnn::kOfDescriptor, y);
    good_ = good_ && operation.finish();
    graph_.set(cudnn::kGraphHandle, cudnn::kOfHandle, shared.handle).set(cudnn::kGraphOperations, operation);
    good_ = good_ && graph_.finish();
  }

  bool good() const { return good_; }

  // The first of the library's ranking that can run in the memory that it may take.
  std::unique_ptr<LibraryConvolution> plan(const std::shared_ptr<CudnnHandle>& shared, bool transposed) {
    for (const cudnn::HeuristicsMode mode : {cudnn::kModeA, cudnn::kFallback}) {
      Descriptor heuristics(f_, cudnn::kHeuristics);
      heuristics.set(cudnn::kHeuristicsGraph, graph_).set(cudnn::kHeuristicsModeOf, cudnn::kOfHeuristicsMode, mode);
      if (!heuristics.finish()) continue;
      std::vector<Descriptor> configurations;
      std::vector<cudnn::BackendDescriptor*> places;
      for (int64_t i = 0; i < kConfigurations; ++i) {
        places.push_back(configurations.emplace_back(f_, cudnn::kEngineConfiguration).get());
      }
      int64_t found = 0;
      if (f_.cudnnBackendGetAttribute_(heuristics.get(), cudnn::kHeuristicsResults, cudnn::kOfDescriptor,
                                       kConfigurations, &found, places.data()) != cudnn::kSuccess)
        continue;
      for (int64_t i = 0; i < std::min(found, kConfigurations); ++i) {
        Descriptor plan(f_, cudnn::kExecutionPlan);
        plan.set(cudnn::kPlanHandle, cudnn::kOfHandle, shared->handle)
            .set(cudnn::kPlanConfiguration, configurations[static_cast<size_t>(i)]);
        int64_t bytes = 0, count = 0;
        if (!plan.finish() || f_.cudnnBackendGetAttribute_(plan.get(), cudnn::kPlanWorkspace, cudnn::kOfInt64, 1,
                                                           &count, &bytes) != cudnn::kSuccess)
          continue;
        if (bytes < 0 || static_cast<size_t>(bytes) > kMaxConvScratch) continue;
        return std::make_unique<GraphConvolution>(shared, std::move(plan), static_cast<size_t>(bytes), transposed);
      }
    }
    return nullptr;
  }

 private:
  const cudnn::BackendDescriptor* tensor(int64_t id, DType dtype, int rank, const int (&lengths)[5],
                                         const int (&strides)[5]) {
    int64_t shape[5], steps[5];
    std::copy_n(lengths, rank, shape);
    std::copy_n(strides, rank, steps);
    Descriptor& made = tensors_.emplace_back(f_, cudnn::kTensor);
    made.set(cudnn::kTensorType, cudnn::kOfDataType, cudnn_type(dtype))
        .set(cudnn::kTensorDimensions, cudnn::kOfInt64, shape, rank)
        .set(cudnn::kTensorStrides, cudnn::kOfInt64, steps, rank)
        .set(cudnn::kTensorId, cudnn::kOfInt64, id)
        .set(cudnn::kTensorAlignment, cudnn::kOfInt64, kAlignment);
    good_ = made.finish() && good_;
    return made.get();
  }

  const CudnnFunctions& f_;
  std::vector<Descriptor> tensors_;
  Descriptor graph_;
  bool good_ = true;
};

}  // namespace

std::unique_ptr<LibraryConvolution> make_cudnn_graph(const std::shared_ptr<CudnnHandle>& shared,
                                                     const ConvShape& shape) {
  const auto dimensions = dimensions_of(shape);
  if (!dimensions) return nullptr;
  const std::lock_guard lock(shared->mutex);
  GraphBuilder graph(*shared, shape, *dimensions);
  return graph.good() ? graph.plan(shared, shape.transposed) : nullptr;
}

}  // namespace gabbro::gpu::api
