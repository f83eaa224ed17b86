#include "src/engine/streaming/placement.h"

#include <gtest/gtest.h>

#include "src/backend/memory_block.h"
#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/engine/streaming/host_blocks.h"

namespace gabbro::streaming {
namespace {

using Home = PlacedMatrix::Home;

// Embeddings of 100 bytes, and four layers of attention (10), feed-forward (20) and experts (40).
std::vector<PlacedMatrix> matrices() {
  std::vector<PlacedMatrix> all = {{.name = "token_embd.weight", .file_bytes = 100, .device_bytes = 100}};
  for (int64_t i = 0; i < 4; ++i) {
    for (int rank = 1; rank <= 3; ++rank) {
      const uint64_t bytes = uint64_t{10} << (rank - 1);
      all.push_back({.name = fmt::format("blk.{}.{}", i, rank),
                     .layer = i,
                     .rank = rank,
                     .file_bytes = bytes,
                     .device_bytes = bytes,
                     .ring_bytes = bytes,
                     .host_bytes = bytes});
    }
  }
  return all;
}

constexpr FixedMemory kFixed = {.vectors = 5, .kv_cache = 20, .scratch = 15};
constexpr uint64_t kAll = 100 + 4 * 70 + 40;
constexpr uint64_t kLeast = 40 + 100 + 70 + 40;  // with a ring for one layer, and its largest matrix as a gap

TEST(Placement, KeepsEverythingThatFits) {
  const Placement p = place(matrices(), kFixed, {.device = kAll}, "cpu");
  EXPECT_FALSE(p.streams());
  EXPECT_EQ(p.resident_bytes, kAll - 40);
  EXPECT_EQ(p.ring_bytes, 0u);
}

TEST(Placement, WithoutALimitNothingMoves) { EXPECT_FALSE(place(matrices(), kFixed, {}, "cpu").streams()); }

TEST(Placement, StreamsWhatIsUsedLeastPerByte) {
  const Placement p = place(matrices(), kFixed, {.device = kAll - 1}, "cpu");
  EXPECT_TRUE(p.streams());
  for (const PlacedMatrix& m : p.matrices) {
    if (m.rank < 2) {
      EXPECT_EQ(m.home, Home::kDevice) << m.name;
    }
  }
  EXPECT_LE(p.device_bytes(), kAll - 1);
}

TEST(Placement, StaysWithinEveryBudgetFromTheLeastOn) {
  EXPECT_EQ(smallest_budget(matrices(), kFixed), kLeast);
  uint64_t moved = UINT64_MAX;
  for (uint64_t budget = kLeast; budget <= kAll; ++budget) {
    const Placement p = place(matrices(), kFixed, {.device = budget}, "cpu");
    EXPECT_LE(p.device_bytes(), budget);
    uint64_t largest = 0;
    for (int64_t layer = 0; layer < 4; ++layer) {
      uint64_t bytes = 0;
      for (const PlacedMatrix& m : p.matrices) bytes += m.layer == layer && m.home != Home::kDevice ? m.ring_bytes : 0;
      largest = std::max(largest, bytes);
    }
    EXPECT_GE(p.ring_bytes, largest);
    moved = std::min(moved, p.bytes_per_pass);
  }
  EXPECT_EQ(moved, 0u);
}

TEST(Placement, NamesTheLeastBudget) {
  try {
    place(matrices(), kFixed, {.device = kLeast - 1}, "cuda:0");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoDevice);
    EXPECT_NE(std::string(error.what()).find("cuda:0"), std::string::npos);
  }
}

// The experts of one token are the least; more memory is for more of them.
TEST(Placement, ReadsExpertsByNeed) {
  std::vector<PlacedMatrix> all = matrices();
  for (PlacedMatrix& m : all) {
    if (m.rank == 3) m.experts = 8, m.used = 2, m.slot_bytes = 5;
  }
  constexpr uint64_t kLeastByNeed = 40 + 100 + 30 + 20 + 2 * 5;
  EXPECT_EQ(smallest_budget(all, kFixed), kLeastByNeed);
  for (uint64_t budget = kLeastByNeed; budget < kAll; ++budget) {
    const Placement p = place(all, kFixed, {.device = budget}, "cpu");
    ASSERT_EQ(p.pools.size(), 1u);
    EXPECT_GE(p.pools[0].slots, 2);
    EXPECT_LE(p.pools[0].slots, 32);
    EXPECT_EQ(p.pools[0].prefixes.size(), 4u);
    EXPECT_LE(p.device_bytes(), budget);
    EXPECT_LE(p.bytes_per_pass, 4u * (30 + 40 / 8 * 2));
  }
}

TEST(Placement, FillsHostMemoryNext) {
  const Placement p = place(matrices(), kFixed, {.device = kLeast, .host = 75}, "cuda:0");
  EXPECT_EQ(p.host_bytes, 60u);  // four times attention, and one feed-forward block: a second one would be too much
  EXPECT_EQ(p.file_bytes_per_pass, 280u - 60u);
}

// Eight layers of 100 bytes in host memory, a bus of 10 bytes a second: 80 s without the CPU.
struct HostCase {
  HostCase() {
    placement.bytes_per_pass = 800;
    for (int64_t i = 0; i < 8; ++i) layers.push_back({.number = i, .moved_bytes = 100, .cpu_bytes = 100});
  }
  HostPlan plan(const CpuSpeeds& cpu, uint64_t memory = 10000, double file = 0) const {
    return plan_host_blocks(placement, layers, memory, {.file = file, .device = 10}, cpu);
  }
  Placement placement;
  std::vector<HostLayer> layers;
};

TEST(HostBlocks, SplitAPassSoThatBusAndCpuTakeAsLong) {
  const HostPlan half = HostCase().plan({.one = 10, .eight = 5});  // 40 s each
  ASSERT_EQ(half.layers.size(), 4u);
  EXPECT_EQ(half.layers[1].number, 2);  // spread over the model
  EXPECT_EQ(half.moved_bytes, 400u);
  EXPECT_DOUBLE_EQ(half.cpu_seconds, 40);
  EXPECT_EQ(half.tokens, 8);  // which take 80 s, as the bus for all
  EXPECT_EQ(HostCase().plan({.one = 30, .eight = 30}).layers.size(), 6u);
}

TEST(HostBlocks, AreLeftToTheDeviceWhereTheyDoNotPay) {
  EXPECT_EQ(HostCase().plan({.one = 0.5, .eight = 0.5}).tokens, 0);  // one layer takes longer than the bus for all
  EXPECT_EQ(HostCase().plan({}).tokens, 0);                          // not measured
  HostCase on_disk;
  on_disk.placement.file_bytes_per_pass = 800;
  EXPECT_EQ(on_disk.plan({.one = 10, .eight = 10}, 10000, 1).tokens, 0);  // the disk bounds a pass
}

TEST(HostBlocks, TakeTheMemoryThatIsLeft) {
  const HostPlan two = HostCase().plan({.one = 10, .eight = 10}, 250);
  EXPECT_EQ(two.layers.size(), 2u);
  EXPECT_LE(two.cpu_bytes, 250u);
  EXPECT_EQ(HostCase().plan({.one = 10, .eight = 10}, 99).tokens, 0);
}

TEST(HostBlocks, AreWholeAndInHostMemory) {
  const auto cpu = open_device("cpu", {.threads = 1});
  Placement placement;
  const auto add = [&](const char* name, int64_t layer, Home home) {
    placement.matrices.push_back(
        {.name = name, .layer = layer, .device_bytes = 1000, .made = {{DType::f16, 16, 32}}, .home = home});
  };
  add("blk.0.attn_q.weight", 0, Home::kDevice);
  add("blk.0.ffn_up.weight", 0, Home::kHost);
  add("blk.0.ffn_down.weight", 0, Home::kHost);
  add("blk.1.attn_q.weight", 1, Home::kHost);
  add("blk.1.ffn_up.weight", 1, Home::kHost);
  add("blk.2.ffn_up.weight", 2, Home::kHost);
  add("blk.2.ffn_down.weight", 2, Home::kFile);
  add("blk.3.ffn_up_exps.weight", 3, Home::kHost);
  add("blk.4.ffn_up.weight", 4, Home::kHost);
  add("blk.4.ffn_down.weight", 4, Home::kDevice);
  const std::vector<HostLayer> layers = host_layers(placement, *cpu);
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[1].number, 1);
  EXPECT_EQ(layers[0].number, 0);
  EXPECT_EQ(layers[0].moved_bytes, 2000u);
  EXPECT_EQ(layers[0].cpu_bytes, 2 * MemoryBlock::rounded(16 * 32 * 2));
}

}  // namespace
}  // namespace gabbro::streaming
