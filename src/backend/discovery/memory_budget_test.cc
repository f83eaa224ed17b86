#include "src/backend/discovery/memory_budget.h"

#include <gtest/gtest.h>

#include "src/backend/discovery/test_tree.h"

namespace gabbro::discovery {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

MemoryBudget budget(MemoryPool vram, MemoryPool gtt, HostMemory host) { return apu_memory_budget(vram, gtt, host); }

TEST(MemoryBudget, SystemMemoryBoundsGtt) {
  // 16 GiB of 32 GiB may be mapped, but only 6 GiB are available, and 2 of them (1/16 of 32) are left to the system.
  const MemoryBudget found = budget({0, 0}, {16 * kGib, 0}, {32 * kGib, 6 * kGib});
  EXPECT_EQ(found.free, 4 * kGib);
  EXPECT_EQ(found.total, 16 * kGib);
}

TEST(MemoryBudget, TheGttLimitBoundsSystemMemory) {
  EXPECT_EQ(budget({0, 0}, {16 * kGib, 4 * kGib}, {32 * kGib, 30 * kGib}).free, 12 * kGib);
}

TEST(MemoryBudget, NeverThePlainSum) {
  // The machine of ROCm issue 6004: 128.5 GiB by the sum of the pools, in a machine of 124.92 GiB.
  const HostMemory host = {.total = 134131707904, .available = 120 * kGib};
  const MemoryBudget found = budget({kGib / 2, 0}, {128 * kGib, 0}, host);
  EXPECT_EQ(found.total, kGib / 2 + host.total - host.total / 16);
  EXPECT_LT(found.total, host.total);
  EXPECT_EQ(found.free, kGib / 2 + 120 * kGib - host.total / 16);
}

TEST(MemoryBudget, ALargeCarveOutIsNotBoundByTheRest) {
  // 96 GiB carved out of 128: the 30 that Linux sees say nothing of them.
  const MemoryBudget found = budget({96 * kGib, 6 * kGib}, {15 * kGib, 0}, {31 * kGib, 10 * kGib});
  EXPECT_EQ(found.free, 90 * kGib + 10 * kGib - 31 * kGib / 16);
}

TEST(MemoryBudget, NothingIsNothing) {
  EXPECT_EQ(budget({}, {}, {}).free, 0U);
  EXPECT_EQ(budget({0, 0}, {16 * kGib, 0}, {8 * kGib, kGib / 2}).free, 0U);       // less than the reserve
  EXPECT_EQ(budget({kGib, 2 * kGib}, {0, kGib}, {8 * kGib, 8 * kGib}).free, 0U);  // used more than there is
  EXPECT_EQ(budget({UINT64_MAX, 0}, {UINT64_MAX, 0}, {UINT64_MAX, UINT64_MAX}).free, 0U);
}

TEST(MemoryBudget, OfCards) {
  const Machine apu = machine("apu");
  // 0.5 GiB - 128 MiB of carve-out; 80 GiB available - 124/16 reserved, less than the GTT limit of 96.
  EXPECT_EQ(card_memory(apu.cards[0], apu.memory).free, kGib / 2 - (128 << 20) + 80 * kGib - 124 * kGib / 16);
  const Machine discrete = machine("rdna3");
  EXPECT_EQ(card_memory(discrete.cards[0], discrete.memory).total, 24 * kGib);
  EXPECT_EQ(card_memory(discrete.cards[0], discrete.memory).free, 24 * kGib - kGib / 2);
}

TEST(MemoryBudget, AMonitorKeepsSome) {
  TestTree tree("rdna3");
  const std::string connector = "sys/bus/pci/devices/0000:03:00.0/drm/card1/card1-";
  tree.write(connector + "HDMI-A-1/status", "disconnected\n");
  const uint64_t without = kGib * 24 - kGib / 2;
  const auto free = [&] {
    const Machine found = tree.machine();
    return card_memory(found.cards[0], found.memory).free;
  };
  EXPECT_EQ(free(), without);
  tree.write(connector + "DP-1/status", "connected\n");
  EXPECT_EQ(free(), without - 300'000'000);
}

// A runtime may count more memory than the GTT limit, or the carve-out alone; the machine's bounds both.
TEST(MemoryBudget, OfAnApuIsTheLargerOfKernelAndRuntime) {
  const Machine apu = machine("apu");  // carve-out 0.5 GiB, GTT 96 GiB, host memory 124 GiB
  const auto total = [&](uint64_t runtime) { return card_memory(apu.cards[0], apu.memory, runtime).total; };
  EXPECT_EQ(total(0), kGib / 2 + 96 * kGib);
  EXPECT_EQ(total(kGib / 2), kGib / 2 + 96 * kGib);
  EXPECT_EQ(total(110 * kGib), 110 * kGib);
  EXPECT_EQ(total(200 * kGib), kGib / 2 + apu.memory.total - host_reserve(apu.memory));
  EXPECT_EQ(card_memory(apu.cards[0], apu.memory, 200 * kGib).free,
            kGib / 2 - (128 << 20) + apu.memory.available - host_reserve(apu.memory));
}

}  // namespace
}  // namespace gabbro::discovery
