// The entry point of libgabbro_cpu.so: the contract's table of functions. No exception leaves this file.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "backends/cpu/device.h"

namespace gabbro::cpu {
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
  } catch (const std::bad_alloc&) {
    return status(StatusCode::kOutOfMemory, "cpu: out of memory");
  } catch (const std::exception& error) {
    return status(StatusCode::kFailed, error.what());
  } catch (...) {
    return status(StatusCode::kFailed, "cpu: unknown failure");
  }
}

CpuDevice& cpu(abi::Device* device) { return *reinterpret_cast<CpuDevice*>(device); }

template <size_t N>
void set_text(char (&field)[N], const std::string& text) {
  std::snprintf(field, N, "%s", text.c_str());
}

Status no_such_device(int32_t index) {
  return status(StatusCode::kFailed, ("cpu:" + std::to_string(index) + ": there is one CPU device, cpu:0").c_str());
}

int32_t device_count() { return 1; }

Status device_facts(int32_t index, abi::DeviceFacts* facts) {
  return guarded([&] {
    if (index != 0) return no_such_device(index);
    const Host host;
    std::string reason;
    const IsaTable* isa = choose_isa(std::getenv("GABBRO_CPU"), reason);
    const Host::Memory memory = host.memory();
    *facts = {};
    set_text(facts->name, host.processor_name());
    set_text(facts->id, "cpu");
    set_text(facts->architecture, isa == nullptr ? "" : isa->name);
    set_text(facts->reason, reason);
    facts->memory_total = memory.total;
    facts->memory_free = memory.free;
    facts->compute_units = host.cores(allowed_processors());
    facts->wave_size = 1;
    facts->usable = isa != nullptr;
    facts->integrated = true;
    facts->host_accessible = true;
    return Status{};
  });
}

Status open(int32_t index, const abi::DeviceOptions* options, abi::Device** device) {
  return guarded([&] {
    constexpr int32_t kMaxThreads = 1024;
    if (index != 0) return no_such_device(index);
    std::string reason;
    const IsaTable* isa = choose_isa(std::getenv("GABBRO_CPU"), reason);
    if (isa == nullptr) return status(StatusCode::kFailed, reason.c_str());
    const int32_t wanted = options == nullptr ? 0 : options->threads;
    if (wanted < 0 || wanted > kMaxThreads) {
      return status(StatusCode::kFailed, ("cpu: " + std::to_string(wanted) + " threads: not in 0..1024").c_str());
    }
    const Host host;
    const std::vector<int> processors = allowed_processors();
    const int cores = host.cores(processors);
    const int threads = wanted == 0 ? cores : wanted;
    // Two threads of one core may well spin; more than there are processors, or than the quota pays for, may not.
    const int at_once = threads <= cores ? cores : std::min<int>(static_cast<int>(processors.size()), 2 * cores);
    *device = reinterpret_cast<abi::Device*>(new CpuDevice(*isa, threads, at_once, host.memory().total));
    return Status{};
  });
}

void close(abi::Device* device) { delete &cpu(device); }

Status allocate(abi::Device* device, size_t bytes, void** pointer) {
  *pointer = cpu(device).allocate(bytes);
  if (*pointer != nullptr) return {};
  return status(StatusCode::kOutOfMemory, ("cpu: no memory for " + std::to_string(bytes) + " bytes").c_str());
}

void free(abi::Device*, void* pointer) { CpuDevice::free(pointer); }

Status copy(abi::Device*, abi::Stream*, void* target, const void* source, size_t bytes) {
  if (bytes > 0) std::memcpy(target, source, bytes);
  return {};
}

Status create_stream(abi::Device*, abi::Stream** stream) {
  *stream = nullptr;  // execute() returns when the work is done: nothing is asynchronous
  return {};
}

void destroy_stream(abi::Device*, abi::Stream*) {}

Status synchronize(abi::Device*, abi::Stream*) { return {}; }

size_t packed_bytes(abi::Device* device, DType dtype, int64_t rows, int64_t columns) {
  return cpu(device).packed_bytes(dtype, rows, columns);
}

Status pack(abi::Device* device, DType dtype, int64_t rows, int64_t columns, const void* host, void* target) {
  return guarded([&] {
    if (cpu(device).packed_bytes(dtype, rows, columns) == 0) {
      return status(StatusCode::kUnsupported, ("cpu: no packed form of " + std::string(dtype_name(dtype))).c_str());
    }
    cpu(device).pack(dtype, rows, columns, host, target);
    return Status{};
  });
}

Status find_kernel(abi::Device* device, const abi::KernelRequest* request, abi::BoundKernel* bound) {
  return guarded([&] {
    std::unique_ptr<Kernel> kernel = cpu(device).make_kernel(*request);
    if (kernel == nullptr) {
      return status(StatusCode::kUnsupported, ("cpu: no kernel for this '" + std::string(request->op) + "'").c_str());
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

void release_kernel(abi::Device*, const void* handle) { delete static_cast<const Kernel*>(handle); }

Status execute(abi::Device* device, abi::Stream*, const abi::Launch* launches, int32_t count,
               const std::atomic<bool>* cancel) {
  return guarded([&] {
    if (cpu(device).execute(launches, count, cancel)) return Status{};
    return status(StatusCode::kCancelled, "cpu: cancelled");
  });
}

constexpr abi::Backend kBackend = {
    .abi_version = abi::kVersion,
    .name = "cpu",
    .score = 0,
    .device_count = device_count,
    .device_facts = device_facts,
    .open = open,
    .close = close,
    .allocate = allocate,
    .free = free,
    .copy_to_device = copy,
    .copy_to_host = copy,
    .create_stream = create_stream,
    .destroy_stream = destroy_stream,
    .synchronize = synchronize,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .find_kernel = find_kernel,
    .release_kernel = release_kernel,
    .execute = execute,
};

}  // namespace
}  // namespace gabbro::cpu

extern "C" __attribute__((visibility("default"))) const gabbro::abi::Backend* gabbro_backend() {
  return &gabbro::cpu::kBackend;
}
