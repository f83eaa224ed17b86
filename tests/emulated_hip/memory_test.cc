#include <cstring>
#include <vector>

#include "tests/emulated_hip/device_calls.h"

namespace emulated_hip {
namespace {

TEST(Allocations, AreCountedAndHoldGarbage) {
  expect_passes(card("gfx1100"), [] {
    const size_t before = free_bytes();
    char* const small = allocate(100);
    char* const large = allocate(3 * kMiB);
    EXPECT_EQ(before - free_bytes(), 4096 + 4 * kMiB);  // pages, and large pages
    std::vector<unsigned char> host(100);
    succeed(hipMemcpy(host.data(), small, host.size(), hipMemcpyDeviceToHost));
    EXPECT_EQ(host, std::vector<unsigned char>(100, 0xa5));
    succeed(hipMemcpy(host.data(), large + 2 * kMiB, host.size(), hipMemcpyDeviceToHost));
    EXPECT_EQ(host, std::vector<unsigned char>(100, 0xa5));
    succeed(hipFree(small));
    succeed(hipFree(large));
    EXPECT_EQ(free_bytes(), before);
    EXPECT_EQ(hipFree(large), hipErrorInvalidValue);
  });
}

TEST(Allocations, AreLimitedByTheMemory) {
  expect_passes(with(card("gfx1100"), "EMULATED_GPU_MEMORY", "4G"), [] {
    void* memory = nullptr;
    EXPECT_EQ(hipMalloc(&memory, 4 * kGiB), hipErrorOutOfMemory);  // the runtime has buffers, too
    char* const most = allocate(3 * kGiB + 512 * kMiB);
    EXPECT_EQ(hipMalloc(&memory, 512 * kMiB), hipErrorOutOfMemory);
    succeed(hipFree(most));
    succeed(hipMalloc(&memory, 512 * kMiB));
  });
}

TEST(Allocations, OneMayTakeMostOfTheMemoryOnlySinceRelease7) {
  for (const char* version : {"6.4", "7.2"}) {
    expect_passes(with(card("gfx1100", version), "EMULATED_GPU_MEMORY", "8G"), [version] {
      void* memory = nullptr;
      const hipError_t result = hipMalloc(&memory, 7 * kGiB);
      EXPECT_EQ(result, std::string(version) == "6.4" ? hipErrorOutOfMemory : hipSuccess);
      succeed(hipMalloc(&memory, 512 * kMiB));
    });
  }
}

TEST(Allocations, OtherProgramsMemoryIsMissingButNotReported) {
  expect_passes(with(with(card("gfx1100"), "EMULATED_GPU_MEMORY", "8G"), "EMULATED_GPU_USED", "6G"), [] {
    EXPECT_EQ(free_bytes(), 8 * kGiB);
    void* memory = nullptr;
    EXPECT_EQ(hipMalloc(&memory, 2 * kGiB), hipErrorOutOfMemory);
    succeed(hipMalloc(&memory, kGiB));
  });
}

TEST(Allocations, AnIntegratedDeviceReportsItsCarveOut) {
  expect_passes(with(with(card("gfx1151"), "EMULATED_GPU_MEMORY", "16G"), "EMULATED_GPU_CARVE_OUT", "512M"), [] {
    hipDeviceProp_t properties{};
    succeed(hipGetDeviceProperties(&properties, 0));
    EXPECT_EQ(properties.totalGlobalMem, 512 * kMiB);
    EXPECT_EQ(free_bytes(), 512 * kMiB);
    allocate(4 * kGiB);
    EXPECT_EQ(free_bytes(), 0U);
  });
}

TEST(Allocations, TheNthFails) {
  expect_passes(with(card("gfx1100"), "EMULATED_GPU_FAIL", "malloc:2"), [] {
    allocate(100);
    void* memory = nullptr;
    EXPECT_EQ(hipMalloc(&memory, 100), hipErrorOutOfMemory);
    allocate(100);
  });
}

}  // namespace
}  // namespace emulated_hip
