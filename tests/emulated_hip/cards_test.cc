#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "tests/emulated_hip/device_calls.h"

namespace emulated_hip {
namespace {

struct Expected {
  const char* target;
  const char* architecture;
  int wave, units, bus_bits;
  size_t memory_mib;
  bool integrated;
};
// From AMD's pages of the products.
constexpr Expected kCards[] = {
    {"gfx906", "gfx906:sramecc+:xnack-", 64, 60, 4096, 16368, false},
    {"gfx90a", "gfx90a:sramecc+:xnack-", 64, 104, 4096, 65520, false},
    {"gfx942", "gfx942:sramecc+:xnack-", 64, 304, 8192, 196592, false},
    {"gfx950", "gfx950:sramecc+:xnack-", 64, 256, 8192, 294896, false},
    {"gfx1030", "gfx1030", 32, 40, 256, 16368, false},
    {"gfx1100", "gfx1100", 32, 48, 384, 24560, false},
    {"gfx1101", "gfx1101", 32, 30, 256, 16368, false},
    {"gfx1102", "gfx1102", 32, 16, 128, 8176, false},
    {"gfx1151", "gfx1151", 32, 20, 256, 65536, true},
    {"gfx1200", "gfx1200", 32, 16, 128, 16304, false},
    {"gfx1201", "gfx1201", 32, 32, 256, 16304, false},
};

int attribute(hipDeviceAttribute_t which) {
  int value = -1;
  succeed(hipDeviceGetAttribute(&value, which, 0));
  return value;
}

class CardsOfRelease : public testing::TestWithParam<const char*> {};

TEST_P(CardsOfRelease, HaveTheirAttributes) {
  for (const Expected& expected : kCards) {
    SCOPED_TRACE(expected.target);
    expect_passes(card(expected.target, GetParam()), [&] {
      succeed(hipInit(0));
      hipDeviceProp_t properties{};
      succeed(hipGetDeviceProperties(&properties, 0));
      EXPECT_STREQ(properties.gcnArchName, expected.architecture);
      EXPECT_EQ(properties.totalGlobalMem, expected.memory_mib << 20);
      EXPECT_EQ(properties.integrated != 0, expected.integrated);
      EXPECT_EQ(attribute(hipDeviceAttributeWarpSize), expected.wave);
      EXPECT_EQ(attribute(hipDeviceAttributeMultiprocessorCount), expected.units);
      EXPECT_EQ(attribute(hipDeviceAttributeMemoryBusWidth), expected.bus_bits);
      EXPECT_EQ(attribute(hipDeviceAttributeVirtualMemoryManagementSupported), 1);
      int value = 0;
      EXPECT_EQ(hipDeviceGetAttribute(&value, hipDeviceAttributeMaxTexture2DLayered, 0), hipErrorInvalidValue);
      char address[16] = "";
      succeed(hipDeviceGetPCIBusId(address, sizeof address, 0));
      EXPECT_STREQ(address, "0000:03:00.0");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Releases, CardsOfRelease, testing::Values("6.4", "7.2", "7.14", "10.0"));

TEST(Cards, AreNumberedAndMayBeNone) {
  expect_passes(card("gfx906,gfx1201"), [] {
    int count = 0;
    succeed(hipGetDeviceCount(&count));
    EXPECT_EQ(count, 2);
    succeed(hipSetDevice(1));
    EXPECT_EQ(hipSetDevice(2), hipErrorInvalidDevice);
    std::thread([] {
      int other = -1;
      succeed(hipGetDevice(&other));
      EXPECT_EQ(other, 0);
    }).join();
  });
  expect_passes({{"EMULATED_GPUS", ""}}, [] {
    int count = 1;
    EXPECT_EQ(hipInit(0), hipErrorNoDevice);
    EXPECT_EQ(hipGetDeviceCount(&count), hipErrorNoDevice);
    EXPECT_EQ(count, 0);
  });
}

TEST(Versions, AreThoseOfTheReleases) {
  for (const auto& [name, number] :
       {std::pair("6.4", 604), std::pair("7.2", 702), std::pair("7.14", 714), std::pair("10.0", 1000)}) {
    expect_passes(card("gfx1100", name), [number = number] {
      int version = 0;
      succeed(hipRuntimeGetVersion(&version));
      EXPECT_EQ(version / 100000, number);
    });
  }
}

TEST(Versions, AWrongVariableEndsTheProcessWithOneLine) {
  for (const auto& [name, value] :
       {std::pair("EMULATED_GPUS", "gfx1036"), std::pair("EMULATED_GPU_STRICT", "7.3"),
        std::pair("EMULATED_GPU_MEMORY", "8X"), std::pair("EMULATED_GPU_FAIL", "launch:0"),
        std::pair("EMULATED_GPU_FAIL", "graph:late"), std::pair("EMULATED_GPU_POISON", "yes"),
        std::pair("EMULATED_GPU_INSTRUCTIONS", "/nowhere"), std::pair("EMULATED_GPU_CODE", "/")}) {
    const Outcome outcome = run_in_process(with(card("gfx1100"), name, value), [] { static_cast<void>(hipInit(0)); });
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_NE(outcome.errors.find(name), std::string::npos) << outcome.errors;
    EXPECT_EQ(outcome.errors.find('\n'), outcome.errors.size() - 1) << outcome.errors;
  }
}

TEST(Process, CallsAfterAForkFail) {
  const Outcome outcome = run_in_process(card("gfx1100"), [] {
    succeed(hipInit(0));
    const pid_t child = ::fork();
    int count = 0;
    if (child == 0) ::_exit(hipGetDeviceCount(&count) == hipErrorNotInitialized ? 7 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 7);
  });
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("hipGetDeviceCount in a process that was forked"), std::string::npos);
}

}  // namespace
}  // namespace emulated_hip
