// The entry point of libgabbro_sim.so, libgabbro_cuda.so and libgabbro_rocm.so: the contract's table of functions. No
// exception leaves this file.
#include <cstdio>
#include <exception>
#include <new>

#include "backends/gpu/checks.h"
#include "backends/gpu/device.h"

namespace gabbro::gpu {
namespace {

using abi::Status;
using abi::StatusCode;

Status status(StatusCode code, const char* message) {
  Status result;
  result.code = code;
  std::snprintf(result.message, sizeof(result.message), "%s", message);
  return result;
}

template <class Body>
Status guarded(Body&& body) {
  try {
    return body();
  } catch (const ApiError& error) {
    return status(error.code, error.what());
  } catch (const std::bad_alloc&) {
    return status(StatusCode::kOutOfMemory, "out of host memory");
  } catch (const std::exception& error) {
    return status(StatusCode::kFailed, error.what());
  } catch (...) {
    return status(StatusCode::kFailed, "unknown failure");
  }
}

GpuDevice& gpu(abi::Device* device) { return *reinterpret_cast<GpuDevice*>(device); }

int32_t device_count() {
  try {
    return api::device_count();
  } catch (...) {
    return 0;
  }
}

Status device_facts(int32_t index, abi::DeviceFacts* facts) {
  return guarded([&] {
    *facts = {};
    std::snprintf(facts->id, sizeof(facts->id), "%s:%d", api::backend_name(), index);
    api::device_facts(index, *facts);
    return Status{};
  });
}

Status open(int32_t index, const abi::DeviceOptions*, abi::Device** device) {
  return guarded([&] {
    *device = reinterpret_cast<abi::Device*>(new GpuDevice(index));
    return Status{};
  });
}

void close(abi::Device* device) { delete &gpu(device); }

Status allocate(abi::Device* device, size_t bytes, void** pointer) {
  return guarded([&] {
    *pointer = gpu(device).allocate(bytes);
    if (*pointer != nullptr) return Status{};
    return status(StatusCode::kOutOfMemory, ("no device memory for " + std::to_string(bytes) + " bytes").c_str());
  });
}

void free(abi::Device* device, void* pointer) { gpu(device).free(pointer); }

Status copy_to_device(abi::Device* device, abi::Stream*, void* target, const void* host, size_t bytes) {
  return guarded([&] {
    gpu(device).copy_to_device(target, host, bytes);
    return Status{};
  });
}

Status copy_to_host(abi::Device* device, abi::Stream*, void* host, const void* source, size_t bytes) {
  return guarded([&] {
    gpu(device).copy_to_host(host, source, bytes);
    return Status{};
  });
}

Status create_stream(abi::Device*, abi::Stream** stream) {
  *stream = nullptr;  // one queue a device: the default one
  return {};
}

void destroy_stream(abi::Device*, abi::Stream*) {}

Status synchronize(abi::Device* device, abi::Stream*) {
  return guarded([&] {
    gpu(device).synchronize();
    return Status{};
  });
}

size_t packed_bytes(abi::Device* device, DType dtype, int64_t rows, int64_t columns) {
  return gpu(device).packed_bytes(dtype, rows, columns);
}

Status pack(abi::Device* device, DType dtype, int64_t rows, int64_t columns, const void* host, void* target) {
  return guarded([&] {
    if (gpu(device).packed_bytes(dtype, rows, columns) == 0) {
      return status(StatusCode::kUnsupported, ("no packed form of " + std::string(dtype_name(dtype))).c_str());
    }
    gpu(device).pack(dtype, rows, columns, host, target);
    return Status{};
  });
}

Status find_kernel(abi::Device* device, const abi::KernelRequest* request, abi::BoundKernel* bound) {
  return guarded([&] {
    std::unique_ptr<Kernel> kernel = gpu(device).make_kernel(*request);
    if (kernel == nullptr) {
      return status(StatusCode::kUnsupported, ("no kernel for this '" + std::string(request->op) + "'").c_str());
    }
    *bound = {.handle = kernel.get(),
              .scratch_bytes = kernel->scratch_bytes,
              .implementation = kernel->implementation.c_str(),
              .bytes = kernel->bytes,
              .flops = kernel->flops};
    kernel.release();
    return Status{};
  });
}

void release_kernel(abi::Device* device, const void* handle) {
  gpu(device).forget_graphs();  // another kernel may come to lie where this one was
  delete static_cast<const Kernel*>(handle);
}

Status execute(abi::Device* device, abi::Stream*, const abi::Launch* launches, int32_t count,
               const std::atomic<bool>* cancel) {
  return guarded([&] {
    if (gpu(device).execute(launches, count, cancel)) return Status{};
    return status(StatusCode::kCancelled, "cancelled");
  });
}

Status run_check(int32_t index, const char* id, abi::CheckResult* result) {
  return guarded([&] {
    *result = {};
    if (gpu::run_check(index, id, *result)) return Status{};
    return status(StatusCode::kUnsupported, "no such check");
  });
}

const abi::Backend& backend() {
  static const abi::Backend table = {
      .abi_version = abi::kVersion,
      .name = api::backend_name(),
      .score = api::score(),
      .device_count = device_count,
      .device_facts = device_facts,
      .open = open,
      .close = close,
      .allocate = allocate,
      .free = free,
      .copy_to_device = copy_to_device,
      .copy_to_host = copy_to_host,
      .create_stream = create_stream,
      .destroy_stream = destroy_stream,
      .synchronize = synchronize,
      .packed_bytes = packed_bytes,
      .pack = pack,
      .find_kernel = find_kernel,
      .release_kernel = release_kernel,
      .execute = execute,
      .run_check = run_check,
  };
  return table;
}

}  // namespace
}  // namespace gabbro::gpu

extern "C" __attribute__((visibility("default"))) const gabbro::abi::Backend* gabbro_backend() {
  return &gabbro::gpu::backend();
}
