#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "backends/gpu/sim/test_kernels.h"
#include "tests/emulated_hip/device_calls.h"
#include "tests/emulated_hip/test_kernels.h"

namespace emulated_hip {
namespace {

using gabbro::gpu::AddArgs;
using gabbro::gpu::TestArgs;

// A kernel writes behind its allocation.
void write_outside() {
  const hipFunction_t write = kernel("test_write", "backends/gpu/sim/test_kernels.cc");
  float* const data = reinterpret_cast<float*>(allocate(400));
  succeed(launch(write, make_stream(), TestArgs{.data = data, .index = 128, .out = data}, 1, 128));
}

void expect_lost(hipError_t error) {
  void* memory = nullptr;
  EXPECT_EQ(hipDeviceSynchronize(), error);
  EXPECT_EQ(hipMalloc(&memory, 4), error);
  EXPECT_EQ(hipDeviceReset(), error);
  EXPECT_EQ(hipSetDevice(0), error);
  std::thread([error] {
    int count = 0;
    EXPECT_EQ(hipGetDeviceCount(&count), error);
  }).join();
}

TEST(Faults, AbortInRelease64) {
  const Outcome outcome = run_in_process(card("gfx1100", "6.4"), [] {
    write_outside();
    static_cast<void>(hipDeviceSynchronize());
  });
  EXPECT_EQ(outcome.signal, SIGABRT);
  EXPECT_NE(outcome.errors.find("Memory access fault by GPU node-1"), std::string::npos) << outcome.errors;
}

TEST(Faults, StayForAllThreadsAndResetsInLaterReleases) {
  for (const char* version : {"7.2", "7.14", "10.0"}) {
    const Outcome outcome = run_in_process(card("gfx1100", version), [] {
      write_outside();
      expect_lost(hipErrorIllegalAddress);
    });
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(outcome.errors.find("kernel test_write, block (0, 0, 0): access at byte 512 of a device allocation of "
                                  "400 bytes"),
              std::string::npos)
        << outcome.errors;
  }
}

TEST(Faults, AWriteInThePaddingIsFoundByTheNextWait) {
  const Outcome outcome = run_in_process(card("gfx1100"), [] {
    const hipFunction_t write = kernel("test_write", "backends/gpu/sim/test_kernels.cc");
    float* const data = reinterpret_cast<float*>(allocate(400));
    succeed(launch(write, make_stream(), TestArgs{.data = data, .index = 101, .out = data}, 1, 128));
    EXPECT_EQ(hipDeviceSynchronize(), hipErrorIllegalAddress);
  });
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("a write 4 bytes behind a device allocation of 400 bytes"), std::string::npos)
      << outcome.errors;
}

TEST(Faults, TheNthLaunchFails) {
  expect_passes(with(card("gfx1201"), "EMULATED_GPU_FAIL", "launch:2"), [] {
    const hipFunction_t add = kernel("test_add", "tests/emulated_hip/test_kernels.cc", "gfx1201");
    auto* const data = reinterpret_cast<gabbro::gpu::i32*>(allocate(256));
    const hipStream_t stream = make_stream();
    succeed(launch(add, stream, AddArgs{data, 1}));
    succeed(hipStreamSynchronize(stream));
    succeed(launch(add, stream, AddArgs{data, 1}));
    EXPECT_EQ(hipStreamSynchronize(stream), hipErrorLaunchFailure);
    expect_lost(hipErrorLaunchFailure);
  });
}

TEST(Faults, AfterOneNoWorkIsDone) {
  expect_passes(with(card("gfx1100"), "EMULATED_GPU_FAIL", "launch:1"), [] {
    const hipFunction_t add = kernel("test_add");
    auto* const data = reinterpret_cast<gabbro::gpu::i32*>(allocate(256));
    char* const pinned = allocate_pinned(4);
    std::memcpy(pinned, "old", 4);
    const hipStream_t stream = make_stream();
    succeed(launch(add, stream, AddArgs{data, 1}));
    static_cast<void>(hipMemcpyDtoHAsync(pinned, data, 4, stream));
    EXPECT_EQ(hipStreamSynchronize(stream), hipErrorLaunchFailure);
    EXPECT_STREQ(pinned, "old");
  });
}

TEST(Faults, TheNthWaitNeverEnds) {
  const Outcome outcome = run_in_process(
      with(card("gfx1100"), "EMULATED_GPU_FAIL", "hang:2"),
      [] {
        succeed(hipDeviceSynchronize());
        std::thread([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          int count = 0;
          succeed(hipGetDeviceCount(&count));  // other calls go on
          fprintf(stderr, "count %d\n", count);
        }).detach();
        static_cast<void>(hipDeviceSynchronize());
      },
      1);
  EXPECT_TRUE(outcome.timed_out);
  EXPECT_EQ(outcome.errors, "count 1\n");
}

TEST(Faults, TheNthCopyNeverEnds) {
  const Outcome outcome = run_in_process(
      with(card("gfx1100"), "EMULATED_GPU_FAIL", "copy:2"),
      [] {
        char* const device = allocate(4);
        char* const pinned = allocate_pinned(4);
        const hipStream_t stream = make_stream(), other = make_stream();
        succeed(hipMemcpyHtoDAsync(device, pinned, 4, stream));
        succeed(hipStreamSynchronize(stream));
        succeed(hipMemcpyHtoDAsync(device, pinned, 4, stream));
        for (int i = 0; i < 100; ++i) EXPECT_EQ(hipStreamQuery(stream), hipErrorNotReady);
        succeed(hipMemcpyHtoDAsync(device, pinned, 4, other));
        succeed(hipStreamSynchronize(other));
        if (!testing::Test::HasFailure()) fprintf(stderr, "waiting\n");
        static_cast<void>(hipStreamSynchronize(stream));
      },
      1);
  EXPECT_TRUE(outcome.timed_out);
  EXPECT_EQ(outcome.errors, "waiting\n");
}

}  // namespace
}  // namespace emulated_hip
