#include "tests/emulated_hip/library_calls.h"

#include <string>

#include "backends/gpu/sim/grid.h"
#include "tests/emulated_hip/graphs.h"
#include "tests/emulated_hip/runtime.h"

namespace emulated_hip {

hipError_t enqueue_library_work(hipStream_t handle, const std::function<void()>& run) {
  return call("work of a library", [&](Runtime& runtime, Lock& lock) {
    Stream& stream = runtime.stream(handle);
    if (!capture_work(runtime, stream, run, 0)) runtime.engine.enqueue(lock, stream, run);
  });
}

void fail_library_work(const char* text) {
  Runtime& runtime = Runtime::get();
  const std::lock_guard lock(runtime.mutex);
  runtime.fault(hipErrorIllegalAddress, text, nullptr);
}

bool has_library_fault(const char* name) { return Runtime::get().settings.has_fault(name); }

bool has_source(const char* source) { return *source != '\0' && gabbro::gpu::sim::has_kernels_of(source); }

}  // namespace emulated_hip
