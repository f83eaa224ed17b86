#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "tests/emulated_hip/device_calls.h"
#include "tests/emulated_hip/test_kernels.h"

namespace emulated_hip {
namespace {

using gabbro::gpu::AddArgs;
using gabbro::gpu::i32;
using gabbro::gpu::u32;

// Two streams write one word; 1 or 2 is left, as the seed has it. With an event the second one comes last.
int last_writer(const std::string& seed, bool waits) {
  return run_in_process(with(card("gfx1100"), "EMULATED_GPU_SEED", seed),
                        [waits] {
                          char* const device = allocate(1);
                          const hipStream_t first = make_stream(), second = make_stream();
                          hipEvent_t event = nullptr;
                          succeed(hipEventCreateWithFlags(&event, hipEventDisableTiming));
                          succeed(hipMemsetAsync(device, 1, 1, first));
                          succeed(hipEventRecord(event, first));
                          if (waits) succeed(hipStreamWaitEvent(second, event, 0));
                          succeed(hipMemsetAsync(device, 2, 1, second));
                          char left = 0;
                          succeed(hipDeviceSynchronize());
                          succeed(hipMemcpy(&left, device, 1, hipMemcpyDeviceToHost));
                          std::exit(left);
                        })
      .code;
}

TEST(Streams, RunInAnyOrderUnlessAnEventSaysSo) {
  std::set<int> free, ordered;
  for (const char* seed : {"1", "2", "3", "4", "5", "6", "7", "8"}) {
    free.insert(last_writer(seed, false));
    ordered.insert(last_writer(seed, true));
  }
  EXPECT_EQ(free, (std::set<int>{1, 2}));
  EXPECT_EQ(ordered, std::set<int>{2});
}

TEST(Streams, TheNullStreamWaitsForBlockingOnes) {
  expect_passes(card("gfx1100"), [] {
    char* const device = allocate(1);
    hipStream_t blocking = nullptr;
    succeed(hipStreamCreate(&blocking));
    succeed(hipMemsetAsync(device, 1, 1, blocking));
    succeed(hipMemset(device, 2, 1));
    succeed(hipMemsetAsync(device, 3, 1, blocking));
    char left = 0;
    succeed(hipMemcpy(&left, device, 1, hipMemcpyDeviceToHost));
    EXPECT_EQ(left, 3);
    succeed(hipStreamDestroy(blocking));
    EXPECT_EQ(hipStreamSynchronize(blocking), hipErrorContextIsDestroyed);
  });
}

TEST(Streams, PollingMakesProgress) {
  expect_passes(card("gfx1100"), [] {
    const hipStream_t stream = make_stream();
    const hipFunction_t add = kernel("test_add");
    auto* const data = reinterpret_cast<i32*>(allocate(256));
    hipEvent_t event = nullptr;
    succeed(hipEventCreate(&event));
    for (int i = 0; i < 20; ++i) succeed(launch(add, stream, AddArgs{data, 1}));
    succeed(hipEventRecord(event, stream));
    int polls = 0;
    while (hipEventQuery(event) == hipErrorNotReady) ++polls;
    EXPECT_GT(polls, 0);
    EXPECT_LT(polls, 100);
    succeed(hipEventQuery(event));
  });
}

std::vector<u32> order_of_blocks(const hipFunction_t order, u32 blocks) {
  auto* const memory = reinterpret_cast<u32*>(allocate((blocks + 1) * sizeof(u32)));
  succeed(hipMemset(memory, 0, sizeof(u32)));
  succeed(launch(order, nullptr, gabbro::gpu::OrderArgs{memory, memory + 1}, blocks));
  std::vector<u32> read(blocks);
  succeed(hipMemcpy(read.data(), memory + 1, blocks * sizeof(u32), hipMemcpyDeviceToHost));
  return read;
}

TEST(Blocks, RunInARandomOrderEachOnce) {
  for (const char* resident : {"0", "4"}) {
    expect_passes(with(with(card("gfx1100"), "EMULATED_GPU_SEED", "3"), "EMULATED_GPU_RESIDENT", resident), [] {
      std::vector<u32> blocks = order_of_blocks(kernel("test_order"), 37);
      EXPECT_FALSE(std::ranges::is_sorted(blocks));
      std::ranges::sort(blocks);
      std::vector<u32> all(37);
      std::iota(all.begin(), all.end(), 0U);
      EXPECT_EQ(blocks, all);
    });
  }
}

TEST(Blocks, MemoryOfOneHoldsGarbage) {
  for (const char* target : {"gfx1100", "gfx942"}) {
    expect_passes(card(target), [target] {
      const hipFunction_t garbage = kernel("test_garbage", "tests/emulated_hip/test_kernels.cc", target);
      auto* const data = reinterpret_cast<u32*>(allocate(256));
      succeed(hipMemset(data, 0, 256));
      succeed(launch(garbage, nullptr, gabbro::gpu::GarbageArgs{data}));
      std::vector<u32> read(64);
      succeed(hipMemcpy(read.data(), data, 256, hipMemcpyDeviceToHost));
      EXPECT_EQ(read, std::vector<u32>(64, 0xa5a5a5a5));
    });
  }
}

}  // namespace
}  // namespace emulated_hip
