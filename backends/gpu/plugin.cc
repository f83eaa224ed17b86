// The entry point of libgabbro_sim.so, libgabbro_cuda.so and libgabbro_rocm.so: the contract's table of functions. No
// exception leaves this file.
#include <cstdio>

#include "backends/common/plugin_entry.h"
#include "backends/gpu/device.h"
#include "backends/gpu/doctor/checks.h"
#include "backends/gpu/facts.h"

namespace gabbro::gpu {
namespace {

using abi::guarded;
using abi::make_status;
using abi::Status;
using abi::StatusCode;

GpuDevice& gpu(abi::Device* device) { return abi::device_cast<GpuDevice>(device); }

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

Status open(int32_t index, const abi::DeviceOptions* options, abi::Device** device) {
  return guarded([&] {
    *device =
        reinterpret_cast<abi::Device*>(new GpuDevice(index, options == nullptr ? abi::DeviceOptions{} : *options));
    return Status{};
  });
}

Status allocate(abi::Device* device, size_t bytes, void** pointer) {
  return guarded([&] {
    *pointer = gpu(device).allocate(bytes);
    if (*pointer != nullptr) return Status{};
    return make_status(StatusCode::kOutOfMemory, "no device memory for " + std::to_string(bytes) + " bytes");
  });
}

void free(abi::Device* device, void* pointer) { gpu(device).free(pointer); }

void free_unpooled(abi::Device* device, void* pointer) {
  gpu(device).pool(abi::MemoryKind::kDevice).release_unpooled(pointer);
}

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

Status allocate_host(abi::Device* device, size_t bytes, void** pointer) {
  return guarded([&] {
    *pointer = gpu(device).allocate_pinned(bytes).release();
    return Status{};
  });
}

void free_host(abi::Device* device, void* pointer) { gpu(device).release_pinned(pointer); }

Status memory_facts(abi::Device* device, abi::MemoryKind kind, abi::PoolFacts* facts) {
  return guarded([&] {
    *facts = gpu(device).pool(kind).facts();
    return Status{};
  });
}

Status reset_memory_facts(abi::Device* device, abi::MemoryKind kind) {
  return guarded([&] {
    gpu(device).pool(kind).reset_facts();
    return Status{};
  });
}

Status reserve(abi::Device* device, abi::MemoryKind kind, size_t bytes) {
  return guarded([&] {
    if (gpu(device).pool(kind).reserve(bytes)) return Status{};
    return make_status(StatusCode::kOutOfMemory, "cannot reserve the memory at once");
  });
}

Status trim(abi::Device* device, abi::MemoryKind kind, size_t* bytes) {
  return guarded([&] {
    *bytes = gpu(device).pool(kind).trim();
    return Status{};
  });
}

Status synchronize(abi::Device* device, abi::Stream*) {
  return guarded([&] {
    gpu(device).synchronize();
    return Status{};
  });
}

void release_kernel(abi::Device* device, const void* handle) {
  gpu(device).forget_graphs();  // another kernel may be allocated at the same address
  delete static_cast<const Kernel*>(handle);
}

Status run_check(int32_t index, const char* id, abi::CheckResult* result) {
  return guarded([&] {
    *result = {};
    if (gpu::run_check(index, id, *result)) return Status{};
    return make_status(StatusCode::kUnsupported, "no such check");
  });
}

Status tuning_facts(abi::Device* device, abi::TuningFacts* facts) {
  return guarded([&] {
    gpu(device).tuning().facts(*facts);
    return Status{};
  });
}

Status measured_shape(abi::Device* device, int32_t number, abi::MeasuredShape* shape) {
  return guarded([&] {
    if (number >= 0 && gpu(device).tuning().measured(static_cast<size_t>(number), *shape)) return Status{};
    return make_status(StatusCode::kUnsupported, "no such measurement");
  });
}

Status set_tuning(abi::Device* device, const abi::TuningOptions* options) {
  return guarded([&] {
    gpu(device).tuning().set(*options);
    return Status{};
  });
}

Status forget_tuning(abi::Device* device) {
  return guarded([&] {
    gpu(device).tuning().forget();
    return Status{};
  });
}

Status copy_between(abi::Device* to, void* target, abi::Device* from, const void* source, size_t bytes) {
  return guarded([&] {
    gpu(to).copy_from(gpu(from), target, source, bytes);
    return Status{};
  });
}

Status peer_route(abi::Device* to, abi::Device* from, abi::PeerRoute* route) {
  return guarded([&] {
    const PeerCopies::Route found = gpu(to).route_from(gpu(from));
    *route = {.direct = found.direct, .reason = {}};
    set_text(route->reason, found.reason);
    return Status{};
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
      .close = abi::close_device<GpuDevice>,
      .allocate = allocate,
      .free = free,
      .free_unpooled = free_unpooled,
      .copy_to_device = copy_to_device,
      .copy_to_host = copy_to_host,
      .allocate_host = allocate_host,
      .free_host = free_host,
      .memory_facts = memory_facts,
      .reset_memory_facts = reset_memory_facts,
      .reserve = reserve,
      .trim = trim,
      .create_stream = abi::create_default_stream,
      .destroy_stream = abi::destroy_default_stream,
      .synchronize = synchronize,
      .packed_bytes = abi::packed_bytes_on<GpuDevice>,
      .pack = abi::pack_on<GpuDevice>,
      .find_kernel = abi::find_kernel_on<GpuDevice>,
      .release_kernel = release_kernel,
      .execute = abi::execute_on<GpuDevice>,
      .run_check = run_check,
      .tuning_facts = tuning_facts,
      .measured_shape = measured_shape,
      .set_tuning = set_tuning,
      .forget_tuning = forget_tuning,
      .copy_between = copy_between,
      .peer_route = peer_route,
  };
  return table;
}

}  // namespace
}  // namespace gabbro::gpu

extern "C" __attribute__((visibility("default"))) const gabbro::abi::Backend* gabbro_backend() {
  return &gabbro::gpu::backend();
}
