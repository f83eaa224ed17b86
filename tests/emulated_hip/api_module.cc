// Modules and launches. A module's code is the simulator's build of the source that the image names.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <string>

#include <fmt/format.h>

#include "tests/emulated_hip/graphs.h"
#include "tests/emulated_hip/image.h"
#include "tests/emulated_hip/kernels.h"
#include "tests/emulated_hip/runtime.h"

using emulated_hip::call;
using emulated_hip::Failure;
using emulated_hip::Image;
using emulated_hip::Kernel;
using emulated_hip::KernelModule;
using emulated_hip::Lock;
using emulated_hip::Runtime;
using emulated_hip::Stream;
using gabbro::gpu::Dim;

namespace {

struct Function {
  std::unique_ptr<Kernel> kernel;
  int device;
};

struct Module {
  int device;
  std::unique_ptr<KernelModule> kernels;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

const Function& function_of(hipFunction_t handle) {
  if (handle == nullptr) throw Failure{hipErrorInvalidDeviceFunction, "function"};
  return *reinterpret_cast<const Function*>(handle);
}

// The bytes of the argument struct, at an address that suits any type.
std::shared_ptr<const void> copy_arguments(const void* from, size_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  void* const copied = ::operator new(bytes, kAlignment);
  std::memcpy(copied, from, bytes);
  return {copied, [](const void* memory) { ::operator delete(const_cast<void*>(memory), kAlignment); }};
}

const void* arguments_of(const Kernel& kernel, void** params, void** extra) {
  if (params != nullptr) return params[0];
  size_t bytes = 0;
  const void* buffer = nullptr;
  for (void** item = extra; item != nullptr && item[0] != HIP_LAUNCH_PARAM_END; item += 2) {
    if (item[0] == HIP_LAUNCH_PARAM_BUFFER_POINTER) buffer = item[1];
    if (item[0] == HIP_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<size_t*>(item[1]);
  }
  if (buffer == nullptr || bytes < kernel.arg_bytes) throw Failure{hipErrorInvalidValue, "the kernel's arguments"};
  return buffer;
}

void run(Runtime& runtime, const Kernel& kernel, Dim grid, uint32_t threads, uint32_t block_memory, const void* args) {
  const emulated_hip::LaunchError error = kernel.run(grid, threads, block_memory, args);
  if (error.text.empty()) return;
  const std::lock_guard lock(runtime.mutex);
  runtime.fault(error.is_access ? hipErrorIllegalAddress : hipErrorLaunchFailure, "emulated GPU: " + error.text,
                nullptr);
}

// The code object of a source that EMULATED_GPU_CODE has.
std::string read_code(const std::string& folder, const Image& image) {
  const std::string name = std::filesystem::path(image.source).stem().string() + "." + image.target + ".hsaco";
  std::ifstream file(folder + "/" + name, std::ios::binary);
  if (!file) {
    fmt::print(stderr, "emulated HIP: EMULATED_GPU_CODE: {} has no {}\n", folder, name);
    throw Failure{hipErrorFileNotFound, name};
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

std::unique_ptr<KernelModule> open_kernels(const Runtime& runtime, const Image& image, int wave) {
  const emulated_hip::Settings& settings = runtime.settings;
  if (image.source.empty()) {
    if (settings.instructions.empty())
      throw Failure{hipErrorInvalidImage, "real device code, which needs EMULATED_GPU_INSTRUCTIONS"};
    return emulated_hip::open_machine_code(image.code, image.target);
  }
  if (settings.code.empty()) return emulated_hip::open_host_kernels(image.source, wave);
  return emulated_hip::open_machine_code(read_code(settings.code, image), image.target);
}

void require_dimensions(unsigned x, unsigned y, unsigned z, unsigned threads, const Kernel& kernel) {
  constexpr uint64_t kMostThreads = uint64_t{1} << 32;
  if (x == 0 || y == 0 || z == 0 || threads == 0) throw Failure{hipErrorInvalidConfiguration, "an empty grid"};
  if (uint64_t{x} * threads >= kMostThreads || y > 65535 || z > 65535)
    throw Failure{hipErrorInvalidConfiguration, fmt::format("a grid of {} x {} x {} blocks of {}", x, y, z, threads)};
  if (kernel.takes_fewer_threads ? threads > kernel.threads : threads != kernel.threads)
    throw Failure{hipErrorInvalidValue, fmt::format("{} threads for a kernel of {}", threads, kernel.threads)};
}

}  // namespace

hipError_t hipModuleLoadData(hipModule_t* module, const void* data) {
  return call("hipModuleLoadData", [&](Runtime& runtime, Lock&) {
    if (module == nullptr || data == nullptr) throw Failure{hipErrorInvalidValue, "image"};
    if (runtime.is_failing("image")) throw Failure{hipErrorInvalidImage, "a fault that was asked for"};
    const int index = runtime.current_device();
    const emulated_hip::Card& card = *runtime.device(index).card;
    const Image image = emulated_hip::find_image(data, card.target, runtime.settings.rules.newest_bundle_format);
    if (image.problem == emulated_hip::ImageProblem::kNoTarget) throw Failure{hipErrorNoBinaryForGpu, image.why};
    if (image.problem == emulated_hip::ImageProblem::kInvalid) throw Failure{hipErrorInvalidImage, image.why};
    auto made = std::make_unique<Module>();
    made->device = index;
    made->kernels = open_kernels(runtime, image, card.wave);
    *module = reinterpret_cast<hipModule_t>(made.release());
  });
}

hipError_t hipModuleLoadDataEx(hipModule_t* module, const void* data, unsigned, hipJitOption*, void**) {
  return hipModuleLoadData(module, data);
}

hipError_t hipModuleUnload(hipModule_t module) {
  return call("hipModuleUnload", [&](Runtime& runtime, Lock& lock) {
    if (module == nullptr) throw Failure{hipErrorInvalidHandle, "module"};
    const std::unique_ptr<Module> held(reinterpret_cast<Module*>(module));
    runtime.engine.wait_for_all(lock, held->device);
  });
}

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t handle, const char* name) {
  return call("hipModuleGetFunction", [&](Runtime&, Lock&) {
    if (function == nullptr || handle == nullptr || name == nullptr) throw Failure{hipErrorInvalidValue, "function"};
    Module& module = *reinterpret_cast<Module*>(handle);
    std::unique_ptr<Function>& known = module.functions[name];
    if (known == nullptr) {
      std::unique_ptr<Kernel> kernel = module.kernels->find(name);
      if (kernel == nullptr)
        throw Failure{hipErrorNotFound, fmt::format("{} has no kernel {}", module.kernels->description(), name)};
      known = std::make_unique<Function>(Function{std::move(kernel), module.device});
    }
    *function = reinterpret_cast<hipFunction_t>(known.get());
  });
}

hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute, hipFunction_t handle) {
  return call("hipFuncGetAttribute", [&](Runtime&, Lock&) {
    if (value == nullptr) throw Failure{hipErrorInvalidValue, "value"};
    const Kernel& kernel = *function_of(handle).kernel;
    switch (attribute) {
      case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = static_cast<int>(kernel.threads);
        return;
      case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_cast<int>(kernel.block_memory);
        return;
      case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = static_cast<int>(kernel.local_memory);
        return;
      case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = 0;
        return;
      case HIP_FUNC_ATTRIBUTE_NUM_REGS:
        *value = static_cast<int>(kernel.registers);
        return;
      default:
        throw Failure{hipErrorInvalidValue, "attribute"};
    }
  });
}

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t handle, int threads,
                                                              size_t block_memory) {
  return call("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", [&](Runtime& runtime, Lock&) {
    if (blocks == nullptr || threads <= 0) throw Failure{hipErrorInvalidValue, "threads"};
    const hipDeviceProp_t& properties = runtime.device(function_of(handle).device).properties;
    const auto by_threads = properties.maxThreadsPerMultiProcessor / threads;
    const auto by_memory =
        block_memory == 0 ? by_threads : static_cast<int>(properties.sharedMemPerMultiprocessor / block_memory);
    // Half of what the threads alone would allow, as kernels use half of the registers.
    *blocks = std::max(1, std::min(by_threads / 2, by_memory));
  });
}

hipError_t hipModuleLaunchKernel(hipFunction_t handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned block_memory,
                                 hipStream_t stream_handle, void** params, void** extra) {
  return call("hipModuleLaunchKernel", [&](Runtime& runtime, Lock& lock) {
    const Function& function = function_of(handle);
    const Kernel& kernel = *function.kernel;
    if (block_y != 1 || block_z != 1)
      throw Failure{hipErrorInvalidValue, "the kernels here have blocks of one dimension"};
    require_dimensions(grid_x, grid_y, grid_z, block_x, kernel);
    Stream& stream = runtime.stream(stream_handle);
    if (stream.device != function.device) throw Failure{hipErrorInvalidHandle, "the stream is of another device"};
    if (block_memory > runtime.device(stream.device).properties.sharedMemPerBlock)
      throw Failure{hipErrorInvalidValue, "shared memory"};
    constexpr size_t kMostArguments = 4096;
    if (kernel.arg_bytes > kMostArguments) throw Failure{hipErrorInvalidValue, "more than 4096 bytes of arguments"};
    const auto args = copy_arguments(arguments_of(kernel, params, extra), kernel.arg_bytes);
    const Dim grid = {grid_x, grid_y, grid_z};
    const auto work = [&runtime, &kernel, grid, block_x, block_memory, args] {
      run(runtime, kernel, grid, block_x, block_memory, args.get());
    };
    if (emulated_hip::capture_work(runtime, stream, work, kernel.arg_bytes)) return;
    ++runtime.statistics.launches;
    if (runtime.is_failing("launch")) {
      runtime.engine.enqueue(lock, stream, [&runtime, &kernel] {
        const std::lock_guard held(runtime.mutex);
        runtime.fault(hipErrorLaunchFailure,
                      fmt::format("emulated GPU: kernel {}: EMULATED_GPU_FAIL=launch", kernel.name), nullptr);
      });
      return;
    }
    runtime.engine.enqueue(lock, stream, work);
  });
}
