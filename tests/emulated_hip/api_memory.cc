// Memory of devices and pinned memory of the host.
#include <algorithm>

#include <fmt/format.h>

#include "tests/emulated_hip/graphs.h"
#include "tests/emulated_hip/runtime.h"

using emulated_hip::Allocation;
using emulated_hip::call;
using emulated_hip::Device;
using emulated_hip::Failure;
using emulated_hip::Lock;
using emulated_hip::MemoryKind;
using emulated_hip::Runtime;

namespace {

constexpr size_t kSmallGranule = 4096, kLargeGranule = size_t{2} << 20;

// Memory comes in pages, and in large pages where it is large.
size_t charged_bytes(size_t bytes) {
  const size_t granule = bytes >= kLargeGranule ? kLargeGranule : kSmallGranule;
  return (bytes + granule - 1) / granule * granule;
}

void release(Runtime& runtime, Lock& lock, void* pointer, MemoryKind kind) {
  if (pointer == nullptr) return;
  const Allocation* allocation = runtime.memory.find(pointer);
  if (allocation == nullptr || allocation->kind != kind)
    throw Failure{hipErrorInvalidValue, "the pointer is not the start of an allocation of this kind"};
  runtime.engine.wait_for_all(lock, allocation->device);
  emulated_hip::end_wait(runtime);
  allocation = runtime.memory.find(pointer);
  if (allocation == nullptr) throw Failure{hipErrorInvalidValue, "freed by another thread"};
  if (kind == MemoryKind::kDevice) runtime.device(allocation->device).charged -= allocation->charged;
  runtime.memory.release(pointer);
}

}  // namespace

hipError_t hipMalloc(void** pointer, size_t bytes) {
  return call("hipMalloc", [&](Runtime& runtime, Lock&) {
    if (pointer == nullptr) throw Failure{hipErrorInvalidValue, "pointer"};
    emulated_hip::refuse_in_capture(runtime);
    *pointer = nullptr;
    if (bytes == 0) return;
    const int index = runtime.current_device();
    Device& device = runtime.device(index);
    const size_t charged = charged_bytes(bytes);
    const bool is_too_large = runtime.settings.rules.limits_single_allocation && bytes > device.total / 100 * 85;
    if (runtime.is_failing("malloc") || is_too_large || !runtime.has_room(device, charged))
      throw Failure{hipErrorOutOfMemory, fmt::format("{} bytes of {}, {} in use", bytes, device.total, device.charged)};
    *pointer = runtime.memory.allocate(MemoryKind::kDevice, index, bytes, charged);
    if (*pointer == nullptr) throw Failure{hipErrorOutOfMemory, "the host has no memory"};
    runtime.charge(device, charged);
  });
}

hipError_t hipFree(void* pointer) {
  return call("hipFree", [&](Runtime& runtime, Lock& lock) {
    emulated_hip::refuse_in_capture(runtime);
    release(runtime, lock, pointer, MemoryKind::kDevice);
  });
}

hipError_t hipHostMalloc(void** pointer, size_t bytes, unsigned) {
  return call("hipHostMalloc", [&](Runtime& runtime, Lock&) {
    if (pointer == nullptr) throw Failure{hipErrorInvalidValue, "pointer"};
    emulated_hip::refuse_in_capture(runtime);
    *pointer = nullptr;
    if (bytes == 0) return;
    *pointer = runtime.memory.allocate(MemoryKind::kPinned, runtime.current_device(), bytes, 0);
    if (*pointer == nullptr) throw Failure{hipErrorOutOfMemory, "the host has no memory"};
  });
}

hipError_t hipHostFree(void* pointer) {
  return call("hipHostFree", [&](Runtime& runtime, Lock& lock) {
    emulated_hip::refuse_in_capture(runtime);
    release(runtime, lock, pointer, MemoryKind::kPinned);
  });
}

hipError_t hipHostRegister(void* host, size_t bytes, unsigned) {
  return call("hipHostRegister", [&](Runtime& runtime, Lock&) {
    if (host == nullptr || bytes == 0) throw Failure{hipErrorInvalidValue, "memory"};
    if (!runtime.registered.emplace(reinterpret_cast<uintptr_t>(host), bytes).second)
      throw Failure{hipErrorHostMemoryAlreadyRegistered, "memory"};
  });
}

hipError_t hipHostUnregister(void* host) {
  return call("hipHostUnregister", [&](Runtime& runtime, Lock& lock) {
    for (size_t i = 0; i < runtime.devices.size(); ++i) runtime.engine.wait_for_all(lock, static_cast<int>(i));
    if (runtime.registered.erase(reinterpret_cast<uintptr_t>(host)) == 0)
      throw Failure{hipErrorHostMemoryNotRegistered, "memory"};
  });
}

// Counts what this process has allocated, as the runtime does: not what other programs use.
hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  return call("hipMemGetInfo", [&](Runtime& runtime, Lock&) {
    if (free == nullptr || total == nullptr) throw Failure{hipErrorInvalidValue, "result"};
    const Device& device = runtime.device(runtime.current_device());
    *total = device.reported;
    *free = device.reported - std::min(device.reported, device.charged);
  });
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* pointer) {
  return call("hipPointerGetAttributes", [&](Runtime& runtime, Lock&) {
    if (attributes == nullptr || pointer == nullptr) throw Failure{hipErrorInvalidValue, "pointer"};
    const Allocation* found = runtime.memory.find_around(pointer, 1);
    *attributes = {};
    attributes->type = hipMemoryTypeUnregistered;
    if (found == nullptr) return;
    attributes->type = found->kind == MemoryKind::kPinned ? hipMemoryTypeHost : hipMemoryTypeDevice;
    attributes->device = found->device;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = found->kind == MemoryKind::kPinned ? const_cast<void*>(pointer) : nullptr;
  });
}
