#include "backends/gpu/hip/runtime.h"

#include <fmt/format.h>

#include "backends/gpu/api.h"
#include "backends/gpu/hip/library.h"

#define GABBRO_TEXT_OF(x) #x
#define GABBRO_TEXT(x) GABBRO_TEXT_OF(x)

namespace gabbro::gpu::hip {

using abi::StatusCode;

Runtime::Runtime() {
  void* library = open_library({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"});
  if (library == nullptr) return;
#define GABBRO_APPLY(function) \
  if (!find_function(library, #function, function##_)) return;
  GABBRO_HIP_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
#define GABBRO_APPLY(function) static_cast<void>(find_function(library, #function, function##_));
  GABBRO_LATER_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
  if (!find_function(library, "hipMalloc", hipMalloc_) || !find_function(library, "hipHostMalloc", hipHostMalloc_))
    return;
  // A macro for the versioned name.
  if (!find_function(library, GABBRO_TEXT(hipGetDeviceProperties), properties_)) return;
  works_ = hipInit_(0) == hipSuccess;
}

const Runtime* Runtime::get() {
  static const Runtime runtime;
  return runtime.works_ ? &runtime : nullptr;
}

void Runtime::check(hipError_t result, const std::string& doing) const {
  if (result == hipSuccess) return;
  const StatusCode code = result == hipErrorOutOfMemory                                   ? StatusCode::kOutOfMemory
                          : result == hipErrorNoDevice || result == hipErrorDeinitialized ? StatusCode::kLost
                                                                                          : StatusCode::kFailed;
  throw ApiError(code, fmt::format("rocm: {}: {}", doing, hipGetErrorString_(result)));
}

hipDeviceProp_t Runtime::properties(int device) const {
  hipDeviceProp_t properties{};
  check(properties_(&properties, device), "asking for the device's properties");
  return properties;
}

int Runtime::version() const {
  int version = 0;
  check(hipRuntimeGetVersion_(&version), "asking for the version");
  return version;
}

const Runtime& runtime() {
  const Runtime* found = Runtime::get();
  if (found == nullptr) throw ApiError(StatusCode::kFailed, "rocm: there is no libamdhip64, or it has no device");
  return *found;
}

}  // namespace gabbro::gpu::hip
