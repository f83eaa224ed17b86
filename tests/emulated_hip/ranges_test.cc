#include <cstring>
#include <vector>

#include "tests/emulated_hip/device_calls.h"

namespace emulated_hip {
namespace {

constexpr size_t kStep = size_t{2} << 20;

hipMemAllocationProp device_memory() {
  hipMemAllocationProp memory{};
  memory.type = hipMemAllocationTypePinned;
  memory.location.type = hipMemLocationTypeDevice;
  return memory;
}

char* reserve(size_t bytes) {
  void* addresses = nullptr;
  succeed(hipMemAddressReserve(&addresses, bytes, 0, nullptr, 0));
  return static_cast<char*>(addresses);
}

void map(char* at, size_t bytes) {
  const hipMemAllocationProp memory = device_memory();
  hipMemGenericAllocationHandle_t handle{};
  succeed(hipMemCreate(&handle, bytes, &memory, 0));
  succeed(hipMemMap(at, bytes, 0, handle, 0));
  succeed(hipMemRelease(handle));
}

hipError_t allow(char* at, size_t bytes) {
  hipMemAccessDesc access{};
  access.location = device_memory().location;
  access.flags = hipMemAccessFlagsProtReadWrite;
  return hipMemSetAccess(at, bytes, &access, 1);
}

void write_and_read(char* at, size_t bytes) {
  const std::vector<char> written(bytes, 'x');
  std::vector<char> read(bytes);
  succeed(hipMemcpy(at, written.data(), bytes, hipMemcpyHostToDevice));
  succeed(hipMemcpy(read.data(), at, bytes, hipMemcpyDeviceToHost));
  EXPECT_EQ(read, written);
}

// All releases: a range grows, holds what is written across its pieces, and goes back to the byte.
TEST(Ranges, GrowAndGiveTheirMemoryBack) {
  for (const char* version : {"6.4", "7.2", "7.14", "10.0"}) {
    SCOPED_TRACE(version);
    expect_passes(card("gfx942", version), [] {
      const size_t before = free_bytes();
      char* const range = reserve(8 * kStep);
      EXPECT_EQ(free_bytes(), before);
      map(range, kStep);
      EXPECT_EQ(hipMemset(range, 0, 1), hipErrorInvalidValue);  // not accessible yet
      succeed(allow(range, kStep));
      map(range + kStep, 2 * kStep);
      succeed(allow(range, 3 * kStep));
      write_and_read(range + kStep / 2, kStep);
      EXPECT_EQ(before - free_bytes(), 3 * kStep);
      EXPECT_EQ(hipMemset(range + 3 * kStep - 1, 0, 2), hipErrorInvalidValue);
      EXPECT_EQ(hipMemAddressFree(range, 8 * kStep), hipErrorInvalidValue);  // memory is mapped
      succeed(hipMemUnmap(range + kStep, 2 * kStep));
      succeed(hipMemUnmap(range, kStep));
      succeed(hipMemAddressFree(range, 8 * kStep));
      EXPECT_EQ(free_bytes(), before);
    });
  }
}

// ROCR-Runtime#285.
TEST(Ranges, OneUnmapOfSeveralPiecesLeaksOnlyInRelease64) {
  for (const char* version : {"6.4", "7.2"}) {
    const bool leaks = std::string(version) == "6.4";
    expect_passes(card("gfx1100", version), [leaks] {
      const size_t before = free_bytes();
      char* const range = reserve(4 * kStep);
      map(range, kStep);
      map(range + kStep, kStep);
      succeed(hipMemUnmap(range, 2 * kStep));
      EXPECT_EQ(hipMemAddressFree(range, 4 * kStep), leaks ? hipErrorInvalidValue : hipSuccess);
      EXPECT_EQ(before - free_bytes(), leaks ? kStep : 0);
    });
  }
}

// rocm-systems PR#6977.
TEST(Ranges, AccessToAGrownTailIsRefusedOnlyInRelease72WithSeveralReservations) {
  for (const char* version : {"6.4", "7.2", "7.14", "10.0"}) {
    const bool refuses = std::string(version) == "7.2";
    expect_passes(card("gfx942", version), [refuses] {
      char* const range = reserve(4 * kStep);
      map(range, kStep);
      succeed(allow(range, kStep));
      map(range + kStep, kStep);
      succeed(allow(range + kStep, kStep));  // the only reservation
      reserve(4 * kStep);
      map(range + 2 * kStep, kStep);
      EXPECT_EQ(allow(range + 2 * kStep, kStep), refuses ? hipErrorInvalidValue : hipSuccess);
      succeed(allow(range, 3 * kStep));  // the whole prefix
    });
  }
}

TEST(Ranges, TheRecommendedStepIsOnePageInRelease64) {
  for (const auto& [version, expected] : {std::pair("6.4", size_t{4096}), std::pair("7.2", kStep)}) {
    expect_passes(card("gfx1100", version), [expected = expected] {
      const hipMemAllocationProp memory = device_memory();
      size_t step = 0;
      succeed(hipMemGetAllocationGranularity(&step, &memory, hipMemAllocationGranularityRecommended));
      EXPECT_EQ(step, expected);
    });
  }
}

TEST(Ranges, AreRefusedWithoutVirtualMemory) {
  expect_passes(with(card("gfx1100"), "EMULATED_GPU_RANGES", "0"), [] {
    int supported = 1;
    succeed(hipDeviceGetAttribute(&supported, hipDeviceAttributeVirtualMemoryManagementSupported, 0));
    EXPECT_EQ(supported, 0);
    void* addresses = nullptr;
    EXPECT_EQ(hipMemAddressReserve(&addresses, kStep, 0, nullptr, 0), hipErrorNotSupported);
  });
}

TEST(Ranges, MappingOverMemoryOrOutsideIsRefused) {
  expect_passes(card("gfx1100"), [] {
    char* const range = reserve(2 * kStep);
    map(range, kStep);
    const hipMemAllocationProp memory = device_memory();
    hipMemGenericAllocationHandle_t handle{};
    succeed(hipMemCreate(&handle, kStep, &memory, 0));
    EXPECT_EQ(hipMemMap(range, kStep, 0, handle, 0), hipErrorInvalidValue);
    EXPECT_EQ(hipMemMap(range + 2 * kStep, kStep, 0, handle, 0), hipErrorInvalidValue);
    EXPECT_EQ(hipMemUnmap(range, 2 * kStep), hipErrorInvalidValue);
    EXPECT_EQ(hipMemUnmap(range + kStep, kStep), hipErrorInvalidValue);
    EXPECT_EQ(hipMemAddressFree(range, kStep), hipErrorInvalidValue);
    succeed(hipMemMap(range + kStep, kStep, 0, handle, 0));
  });
}

}  // namespace
}  // namespace emulated_hip
