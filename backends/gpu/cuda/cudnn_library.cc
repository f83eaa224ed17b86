#include "backends/gpu/cuda/cudnn_library.h"

#include "backends/gpu/cuda/library.h"

namespace gabbro::gpu::api {

const CudnnFunctions* CudnnFunctions::get() {
  static const CudnnFunctions functions;
  return functions.works_ ? &functions : nullptr;
}

CudnnFunctions::CudnnFunctions() {
  void* library = open_library({"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"});
  if (library == nullptr) return;
#define GABBRO_APPLY(function)                                                        \
  function##_ = reinterpret_cast<decltype(function##_)>(::dlsym(library, #function)); \
  if (function##_ == nullptr) return;
  GABBRO_LIBRARY_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
  works_ = true;
}

}  // namespace gabbro::gpu::api
