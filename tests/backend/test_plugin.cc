// A backend plugin for tests; the macro GABBRO_TEST_PLUGIN chooses what is wrong with it. Its devices accept no op, and
// fail in the way that their index names.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gabbro/backend_abi.h"

namespace {

using gabbro::abi::Status;
using gabbro::abi::StatusCode;

Status fail(StatusCode code) {
  Status status;
  status.code = code;
  std::snprintf(status.message, sizeof(status.message), "as the test asked");
  return status;
}

// Device i fails with status code i + 1 wherever it can; device 0 cannot be used, device 4 (unsupported) has no facts.
constexpr int kDevices = 5;
int g_codes[kDevices] = {1, 2, 3, 4, 5};

Status facts(int32_t index, gabbro::abi::DeviceFacts* facts) {
  *facts = {};
  std::snprintf(facts->id, sizeof(facts->id), "rocm:%d", index);
  std::snprintf(facts->architecture, sizeof(facts->architecture), "gfx%d", 1100 + index);
  if (index == 4) return fail(StatusCode::kUnsupported);
  facts->usable = index != 0;
  if (index == 0) std::snprintf(facts->reason, sizeof(facts->reason), "the driver sleeps");
  return {};
}

StatusCode code_of(gabbro::abi::Device* device) { return static_cast<StatusCode>(*reinterpret_cast<int*>(device)); }

constexpr gabbro::abi::Backend kBackend = {
    .abi_version = GABBRO_TEST_PLUGIN == 2 ? gabbro::abi::kVersion + 6 : gabbro::abi::kVersion,
    .name = "rocm",
    .score = 50,
    .device_count = [] { return GABBRO_TEST_PLUGIN == 4 ? int32_t{0} : int32_t{kDevices}; },
    .device_facts = facts,
    .open =
        [](int32_t index, const gabbro::abi::DeviceOptions*, gabbro::abi::Device** device) {
          *device = reinterpret_cast<gabbro::abi::Device*>(&g_codes[index]);
          return index == 3 ? fail(StatusCode::kFailed) : Status{};
        },
    .close = [](gabbro::abi::Device*) {},
    .allocate =
        [](gabbro::abi::Device* device, gabbro::abi::Stream*, size_t bytes, void** pointer) {
          if (bytes > 1000) return fail(code_of(device));
          *pointer = std::malloc(bytes + 1);
          return Status{};
        },
    .free = [](gabbro::abi::Device*, gabbro::abi::Stream*, void* pointer) { std::free(pointer); },
    .copy_to_device = [](gabbro::abi::Device* device, gabbro::abi::Stream*, void*, const void*,
                         size_t) { return fail(code_of(device)); },
    .copy_to_host =
        [](gabbro::abi::Device*, gabbro::abi::Stream*, void* host, const void*, size_t bytes) {
          std::memset(host, 0, bytes);
          return Status{};
        },
    .packed_bytes = [](gabbro::abi::Device*, gabbro::DType, int64_t, int64_t) { return size_t{8}; },
    .pack = [](gabbro::abi::Device* device, gabbro::abi::Stream*, const gabbro::abi::PackRequest*, const void*,
               void*) { return fail(code_of(device)); },
    .find_kernel =
        [](gabbro::abi::Device* device, const gabbro::abi::KernelRequest* request, gabbro::abi::BoundKernel* kernel) {
          *kernel = {.handle = device, .implementation = "test"};
          return std::strcmp(request->op, "exp") == 0 ? Status{} : fail(StatusCode::kUnsupported);
        },
    .release_kernel = [](gabbro::abi::Device*, const void*) {},
    .execute = [](gabbro::abi::Device* device, gabbro::abi::Stream*, const gabbro::abi::Launch*, int32_t,
                  const std::atomic<bool>*) { return fail(code_of(device)); },
};

}  // namespace

#if GABBRO_TEST_PLUGIN != 0  // 0: a library without the entry point
extern "C" __attribute__((visibility("default"))) const gabbro::abi::Backend* gabbro_backend() {
  return GABBRO_TEST_PLUGIN == 3 ? nullptr : &kBackend;
}
#endif
