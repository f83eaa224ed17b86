// AMD's HIP runtime. libamdhip64 is opened when it is first needed: where it is missing, there are no devices.
#pragma once

#include <hip/hip_runtime_api.h>

#include <string>

namespace gabbro::gpu::hip {

// The runtime's functions that we call. A macro, since each has a different type.
// clang-format off
#define GABBRO_HIP_FUNCTIONS(X) \
  X(hipInit) X(hipGetDeviceCount) X(hipSetDevice) X(hipDeviceGetPCIBusId) X(hipRuntimeGetVersion) X(hipMemGetInfo) \
  X(hipFree) X(hipHostFree) X(hipStreamDestroy) X(hipStreamSynchronize) X(hipMemcpyHtoDAsync) X(hipMemcpyDtoHAsync) \
  X(hipModuleLoadData) X(hipModuleUnload) X(hipModuleGetFunction) X(hipFuncGetAttribute) X(hipModuleLaunchKernel) \
  X(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(hipStreamBeginCapture) X(hipStreamEndCapture) X(hipGraphInstantiateWithFlags) X(hipGraphLaunch) \
  X(hipGraphExecDestroy) X(hipGraphDestroy) X(hipGetErrorString) X(hipStreamCreateWithFlags) \
  X(hipDeviceCanAccessPeer) X(hipDeviceEnablePeerAccess) X(hipMemcpyPeerAsync) \
  X(hipEventCreateWithFlags) X(hipEventDestroy) X(hipEventRecord) X(hipStreamWaitEvent) \
  X(hipStreamQuery) X(hipEventQuery)
// Functions that some runtimes lack; null there.
#define GABBRO_LATER_FUNCTIONS(X) \
  X(hipDeviceGetAttribute) X(hipMemGetAllocationGranularity) X(hipMemAddressReserve) X(hipMemAddressFree) \
  X(hipMemCreate) X(hipMemRelease) X(hipMemMap) X(hipMemUnmap) X(hipMemSetAccess) \
  X(hipExtMallocWithFlags)
// clang-format on

class Runtime {
 public:
#define GABBRO_APPLY(function) decltype(&::function) function##_ = nullptr;
  GABBRO_HIP_FUNCTIONS(GABBRO_APPLY)
  GABBRO_LATER_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
  // These are overloaded in the headers.
  hipError_t (*hipMalloc_)(void**, size_t) = nullptr;
  hipError_t (*hipHostMalloc_)(void**, size_t, unsigned) = nullptr;
  hipError_t (*properties_)(hipDeviceProp_t*, int) = nullptr;

  // The runtime; null: none that works.
  static const Runtime* get();
  // Why there is none, in one line.
  static const std::string& problem();

  // Whether this process was forked from one that had opened HIP. A child has none of HIP's threads and mappings, so
  // that calls would hang or crash: all functions fail in it, and check() gives the reason.
  bool is_forked() const { return opened_by_ != 0; }

  // Throws ApiError where `result` is a failure, naming what was done.
  void check(hipError_t result, const std::string& doing) const;
  // The result of a query: false while work is under way. Throws as check.
  bool is_done(hipError_t result, const std::string& doing) const;
  hipDeviceProp_t properties(int device) const;
  int version() const;  // 70253211 of HIP 7.2.53211

 private:
  Runtime();
  static const Runtime& only();
  bool trace_calls();
  static void refuse_in_child();
  bool works_ = false;
  int opened_by_ = 0;  // in a child: the process that opened HIP
  std::string problem_;
};

// The runtime; throws ApiError if there is none.
const Runtime& runtime();

}  // namespace gabbro::gpu::hip
