// Device memory, ranges of addresses and pinned memory on HIP.
#include "backends/gpu/hip/objects.h"

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
  return step;
}

void* reserve_addresses(Context* context, size_t bytes) {
  context->use();
  void* addresses = nullptr;
  runtime().check(runtime().hipMemAddressReserve_(&addresses, bytes, 0, nullptr, 0), "reserving addresses");
  return addresses;
}

bool map_memory(Context* context, void* addresses, size_t bytes) {
  const Runtime& hip = runtime();
  context->use();
  const hipMemAllocationProp memory = range_memory(context);
  hipMemGenericAllocationHandle_t handle{};
  const hipError_t result = hip.hipMemCreate_(&handle, bytes, &memory, 0);
  if (result == hipErrorOutOfMemory) return false;
  hip.check(result, "allocating for a range");
  const hipError_t mapped = hip.hipMemMap_(addresses, bytes, 0, handle, 0);
  static_cast<void>(hip.hipMemRelease_(handle));  // the range has it
  hip.check(mapped, "mapping a range");
  hipMemAccessDesc access{};
  access.location = memory.location;
  access.flags = hipMemAccessFlagsProtReadWrite;
  const hipError_t allowed = hip.hipMemSetAccess_(addresses, bytes, &access, 1);
  if (allowed != hipSuccess) static_cast<void>(hip.hipMemUnmap_(addresses, bytes));
  hip.check(allowed, "giving access to a range");
  return true;
}

void release_addresses(Context* context, void* addresses, size_t bytes, size_t mapped) {
  if (!context->try_use()) return;
  if (mapped > 0) static_cast<void>(runtime().hipMemUnmap_(addresses, mapped));
  static_cast<void>(runtime().hipMemAddressFree_(addresses, bytes));
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
