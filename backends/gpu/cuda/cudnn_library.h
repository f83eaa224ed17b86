// cuDNN's functions, and a handle of it.
#pragma once

#include <memory>
#include <mutex>

#include "backends/gpu/cuda/cudnn_entry_points.h"
#include "gabbro/dtype.h"

namespace gabbro::gpu::api {

// clang-format off
#define GABBRO_LIBRARY_FUNCTIONS(X) \
  X(cudnnGetVersion) X(cudnnCreate) X(cudnnDestroy) X(cudnnSetStream) X(cudnnCreateTensorDescriptor) \
  X(cudnnDestroyTensorDescriptor) X(cudnnSetTensorNdDescriptor) X(cudnnCreateFilterDescriptor) \
  X(cudnnDestroyFilterDescriptor) X(cudnnSetFilterNdDescriptor) X(cudnnCreateConvolutionDescriptor) \
  X(cudnnDestroyConvolutionDescriptor) X(cudnnSetConvolutionNdDescriptor) X(cudnnSetConvolutionGroupCount) \
  X(cudnnSetConvolutionMathType) X(cudnnGetConvolutionForwardAlgorithm_v7) X(cudnnConvolutionForward) \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7) X(cudnnConvolutionBackwardData) X(cudnnBackendCreateDescriptor) \
  X(cudnnBackendDestroyDescriptor) X(cudnnBackendFinalize) X(cudnnBackendSetAttribute) X(cudnnBackendGetAttribute) \
  X(cudnnBackendExecute)
// clang-format on

class CudnnFunctions {
 public:
#define GABBRO_APPLY(function) cudnn::function* function##_ = nullptr;
  GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY

  // For all devices. Null where there is no library of this version.
  static const CudnnFunctions* get();

 private:
  CudnnFunctions();
  bool works_ = false;
};

// A handle, which only one thread may use at a time.
struct CudnnHandle {
  explicit CudnnHandle(const CudnnFunctions& all) : functions(all) {}
  ~CudnnHandle() {
    if (handle != nullptr) functions.cudnnDestroy_(handle);
  }
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  const CudnnFunctions& functions;
  cudnn::Handle* handle = nullptr;
  std::mutex mutex;
};

inline cudnn::DataType cudnn_type(DType dtype) {
  return dtype == DType::f32 ? cudnn::kFloat : dtype == DType::f16 ? cudnn::kHalf : cudnn::kBFloat16;
}

}  // namespace gabbro::gpu::api
