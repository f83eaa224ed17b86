// Short forms of HIP's calls for the tests, which expect success.
#pragma once

#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>

#include <string>

#include "tests/emulated_hip/image.h"
#include "tests/emulated_hip/process.h"

namespace emulated_hip {

inline constexpr size_t kMiB = size_t{1} << 20, kGiB = size_t{1} << 30;

inline void succeed(hipError_t error) { EXPECT_EQ(error, hipSuccess) << hipGetErrorName(error); }

inline char* allocate(size_t bytes) {
  void* memory = nullptr;
  succeed(hipMalloc(&memory, bytes));
  return static_cast<char*>(memory);
}

inline char* allocate_pinned(size_t bytes) {
  void* memory = nullptr;
  succeed(hipHostMalloc(&memory, bytes, 0));
  return static_cast<char*>(memory);
}

inline hipStream_t make_stream() {
  hipStream_t stream = nullptr;
  succeed(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  return stream;
}

inline size_t free_bytes() {
  size_t free = 0, total = 0;
  succeed(hipMemGetInfo(&free, &total));
  return free;
}

// A kernel of the tests (test_kernels.cc), or of the simulator's.
inline hipFunction_t kernel(const char* name, const char* source = "tests/emulated_hip/test_kernels.cc",
                            const char* target = "gfx1100") {
  static std::string image;  // only read while it is loaded
  image = make_image(target, source);
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr;
  succeed(hipModuleLoadData(&module, image.data()));
  succeed(hipModuleGetFunction(&function, module, name));
  return function;
}

template <class Args>
hipError_t launch(hipFunction_t function, hipStream_t stream, Args args, unsigned blocks = 1, unsigned threads = 64) {
  void* params[] = {&args};
  return hipModuleLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, params, nullptr);
}

// The variables of one card and one release.
inline std::map<std::string, std::string> card(const std::string& target, const std::string& version = "7.2") {
  return {{"EMULATED_GPUS", target}, {"EMULATED_GPU_STRICT", version}};
}
inline std::map<std::string, std::string> with(std::map<std::string, std::string> variables, const std::string& name,
                                               const std::string& value) {
  variables[name] = value;
  return variables;
}

inline void expect_passes(const std::map<std::string, std::string>& variables, const std::function<void()>& body) {
  const Outcome outcome = run_in_process(variables, body);
  EXPECT_EQ(outcome.code, 0) << (outcome.timed_out ? "timed out: " : "") << outcome.errors;
}

}  // namespace emulated_hip
