// Functions of the runtime for the libraries next to it, which real ones have through the driver.
#pragma once

#include <functional>

#include <hip/hip_runtime_api.h>

namespace emulated_hip {

// Work of a library on a stream; in a capture a node of its graph.
hipError_t enqueue_library_work(hipStream_t stream, const std::function<void()>& run);
// Inside such work: a fault of the device.
void fail_library_work(const char* text);
// Whether EMULATED_GPU_FAIL has this fault ("gemm:crash").
bool has_library_fault(const char* name);
// Whether a source ("kernels/rows/rms_norm.cc") has host code.
bool has_source(const char* source);

}  // namespace emulated_hip
