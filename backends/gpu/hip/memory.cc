// Device memory, ranges of addresses and pinned memory on HIP.
#include <fmt/format.h>

#include <algorithm>

#include "backends/gpu/hip/objects.h"
#include "src/base/round_up.h"

namespace gabbro::gpu::api {

size_t free_memory(Context* context) {
  context->use();
  size_t free = 0, total = 0;
  runtime().check(runtime().hipMemGetInfo_(&free, &total), "asking for the free memory");
  return free;
}

void* allocate(Context* context, size_t bytes) {
  context->use();
  void* pointer = nullptr;
  const hipError_t result = runtime().hipMalloc_(&pointer, bytes);
  if (result == hipErrorOutOfMemory) return nullptr;
  runtime().check(result, "allocating");
  return pointer;
}

// Uncached: a kernel that runs sees what others write meanwhile.
void* allocate_shared(Context* context, size_t bytes) {
  context->use();
  void* pointer = nullptr;
  const hipError_t result = runtime().hipExtMallocWithFlags_(&pointer, bytes, hipDeviceMallocUncached);
  if (result == hipErrorOutOfMemory) return nullptr;
  runtime().check(result, "allocating uncached memory");
  return pointer;
}

uint64_t ticks_per_second() { return uint64_t{100} * 1000 * 1000; }

void release(Context* context, void* pointer) {
  if (context->try_use()) static_cast<void>(runtime().hipFree_(pointer));
}

size_t allocation_step() { return 512; }

namespace {

hipMemAllocationProp range_memory(const Context* context) {
  hipMemAllocationProp memory{};
  memory.type = hipMemAllocationTypePinned;
  memory.location.type = hipMemLocationTypeDevice;
  memory.location.id = context->device;
  return memory;
}

// Empty for a success.
std::string failure_of(hipError_t result, const char* doing) {
  return result == hipSuccess ? "" : fmt::format("rocm: {}: {}", doing, runtime().hipGetErrorString_(result));
}

}  // namespace

size_t range_step(Context* context) {
  const Runtime& hip = runtime();
  context->use();
  int supported = 0;
  if (hip.hipDeviceGetAttribute_ == nullptr || hip.hipMemSetAccess_ == nullptr ||
      hip.hipDeviceGetAttribute_(&supported, hipDeviceAttributeVirtualMemoryManagementSupported, context->device) !=
          hipSuccess ||
      supported == 0)
    return 0;
  const hipMemAllocationProp memory = range_memory(context);
  size_t step = 0;
  hip.check(hip.hipMemGetAllocationGranularity_(&step, &memory, hipMemAllocationGranularityRecommended),
            "asking for the step of ranges");
  // Some runtimes recommend 4 KiB. Each piece costs four calls, and each call may wait for the device.
  constexpr size_t kLeastStep = size_t{2} << 20;
  return round_up(kLeastStep, std::max<size_t>(step, 1));
}

void* reserve_addresses(Context* context, size_t bytes) {
  context->use();
  void* addresses = nullptr;
  runtime().check(runtime().hipMemAddressReserve_(&addresses, bytes, 0, nullptr, 0), "reserving addresses");
  return addresses;
}

bool map_memory(Context* context, void* range, size_t mapped, size_t bytes) {
  const Runtime& hip = runtime();
  context->use();
  void* const piece = static_cast<std::byte*>(range) + mapped;
  const hipMemAllocationProp memory = range_memory(context);
  hipMemGenericAllocationHandle_t handle{};
  const hipError_t created = hip.hipMemCreate_(&handle, bytes, &memory, 0);
  if (created == hipErrorOutOfMemory) return false;
  hip.check(created, "allocating for a range");
  const hipError_t placed = hip.hipMemMap_(piece, bytes, 0, handle, 0);
  static_cast<void>(hip.hipMemRelease_(handle));  // the range has it
  hip.check(placed, "mapping a range");
  hipMemAccessDesc access{};
  access.location = memory.location;
  access.flags = hipMemAccessFlagsProtReadWrite;
  hipError_t allowed = hip.hipMemSetAccess_(piece, bytes, &access, 1);
  // HIP 7.2 may refuse the end of a range where there are several ranges, and accepts all of it (rocm-systems PR 6977).
  if (allowed != hipSuccess && mapped > 0) allowed = hip.hipMemSetAccess_(range, mapped + bytes, &access, 1);
  if (allowed != hipSuccess) static_cast<void>(hip.hipMemUnmap_(piece, bytes));
  hip.check(allowed, "giving access to a range");
  return true;
}

std::string unmap_memory(Context* context, void* piece, size_t bytes) {
  if (!context->try_use()) return {};
  return failure_of(runtime().hipMemUnmap_(piece, bytes), "unmapping a range");
}

std::string release_addresses(Context* context, void* range, size_t bytes) {
  if (!context->try_use()) return {};
  return failure_of(runtime().hipMemAddressFree_(range, bytes), "releasing the addresses of a range");
}

void* allocate_pinned(Context* context, size_t bytes) {
  context->use();
  void* pointer = nullptr;
  const hipError_t result = runtime().hipHostMalloc_(&pointer, bytes, 0);
  if (result == hipErrorOutOfMemory) return nullptr;
  runtime().check(result, "allocating pinned memory");
  return pointer;
}

void release_pinned(Context* context, void* pointer) {
  if (context->try_use()) static_cast<void>(runtime().hipHostFree_(pointer));
}

}  // namespace gabbro::gpu::api
