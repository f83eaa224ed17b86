#include "backends/gpu/hip/runtime.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "backends/gpu/api.h"
#include "backends/gpu/hip/library.h"
#include "backends/gpu/hip/recorded_call.h"
#include "backends/gpu/lost_device.h"

#define GABBRO_TEXT_OF(x) #x
#define GABBRO_TEXT(x) GABBRO_TEXT_OF(x)

namespace gabbro::gpu::hip {

using abi::StatusCode;

static_assert(hipErrorIllegalAddress == kIllegalAddress && hipErrorLaunchFailure == kLaunchFailure &&
              hipErrorLaunchTimeOut == kLaunchTimeout && hipErrorAssert == kAssert &&
              hipErrorECCNotCorrectable == kUncorrectable && hipErrorNoDevice == kNoDevice &&
              hipErrorDeinitialized == kDeinitialized);

namespace {

Runtime* initialized = nullptr;  // for the handler of fork()
int initialized_by = 0;

template <class... Arguments>
hipError_t refuse(Arguments...) {
  return hipErrorNotInitialized;
}

// A function that fails, in place of one that can.
template <class... Arguments>
void replace(hipError_t (*&function)(Arguments...)) {
  if (function != nullptr) function = refuse<Arguments...>;
}
void replace(const char* (*&)(hipError_t)) {}

}  // namespace

void Runtime::refuse_in_child() {
  Runtime& own = *initialized;
  own.opened_by_ = initialized_by;
#define GABBRO_APPLY(function) replace(own.function##_);
  GABBRO_HIP_FUNCTIONS(GABBRO_APPLY)
  GABBRO_LATER_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
  replace(own.hipMalloc_);
  replace(own.hipHostMalloc_);
  replace(own.properties_);
}

Runtime::Runtime() {
  const hip_search::Found& found = hip_library();
  void* const library = found.library;
  problem_ = "there is no HIP runtime: " + found.problem;
  if (library == nullptr) return;
  problem_ = found.path + " lacks functions of HIP 6.3 and newer";
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
  if (!trace_calls()) return;
  const hipError_t result = hipInit_(0);
  works_ = result == hipSuccess;
  if (!works_) return;
  initialized = this;
  initialized_by = ::getpid();
  ::pthread_atfork(nullptr, nullptr, refuse_in_child);
  problem_ = works_ ? "" : fmt::format("{}: {}", found.path, hipGetErrorString_(result));
}

// With GABBRO_HIP_TRACE every function is replaced by one that records its calls. False: the file cannot be written.
bool Runtime::trace_calls() {
  CallTrace* const trace = CallTrace::of_process();
  if (trace == nullptr) return true;
  if (!trace->is_open()) {
    problem_ = fmt::format("GABBRO_HIP_TRACE={} cannot be written", trace->path());
    return false;
  }
#define GABBRO_APPLY(function) record_calls<#function>(*trace, function##_);
  GABBRO_HIP_FUNCTIONS(GABBRO_APPLY)
  GABBRO_LATER_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
  record_calls<"hipMalloc">(*trace, hipMalloc_);
  record_calls<"hipHostMalloc">(*trace, hipHostMalloc_);
  record_calls<"hipGetDeviceProperties">(*trace, properties_);
  return true;
}

const Runtime& Runtime::only() {
  static const Runtime runtime;
  return runtime;
}

const Runtime* Runtime::get() { return only().works_ ? &only() : nullptr; }

const std::string& Runtime::problem() { return only().problem_; }

void Runtime::check(hipError_t result, const std::string& doing) const {
  if (result == hipSuccess) return;
  if (is_forked()) {
    throw ApiError(
        StatusCode::kFailed,
        fmt::format("rocm: this process was forked from process {}, which had opened ROCm, and cannot use it: "
                    "start workers as new processes, in Python with multiprocessing.set_start_method('spawn')",
                    opened_by_));
  }
  const StatusCode code = result == hipErrorOutOfMemory ? StatusCode::kOutOfMemory
                          : is_lost(result)             ? StatusCode::kLost
                                                        : StatusCode::kFailed;
  throw ApiError(code, fmt::format("rocm: {}: {}", doing, hipGetErrorString_(result)));
}

bool Runtime::is_done(hipError_t result, const std::string& doing) const {
  if (result == hipErrorNotReady) return false;
  // A fault that the runtime has no name for.
  if (result == hipErrorUnknown) throw ApiError(StatusCode::kLost, fmt::format("rocm: {}: unknown error", doing));
  check(result, doing);
  return true;
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
  if (found == nullptr) throw ApiError(StatusCode::kFailed, "rocm: " + Runtime::problem());
  return *found;
}

}  // namespace gabbro::gpu::hip
