#include "src/plan/memory_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace gabbro {
namespace {

bool overlap_in_time(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

TEST(MemoryPlan, BuffersAliveTogetherNeverShareMemory) {
  EXPECT_TRUE(rc::check("no overlap", [](std::vector<std::tuple<uint16_t, uint8_t, uint8_t>> raw) {
    std::vector<Lifetime> lives;
    for (const auto& [bytes, first, length] : raw)
      lives.push_back({.bytes = bytes, .first = first, .last = first + length % 16});
    const MemoryPlan plan = plan_memory(lives);
    for (size_t a = 0; a < lives.size(); ++a) {
      RC_ASSERT(plan.offsets[a] % 64 == 0U);
      RC_ASSERT(lives[a].bytes == 0 || plan.offsets[a] + lives[a].bytes <= plan.bytes);
      for (size_t b = a + 1; b < lives.size(); ++b) {
        if (lives[a].bytes == 0 || lives[b].bytes == 0 || !overlap_in_time(lives[a], lives[b])) continue;
        RC_ASSERT(plan.offsets[a] + lives[a].bytes <= plan.offsets[b] ||
                  plan.offsets[b] + lives[b].bytes <= plan.offsets[a]);
      }
    }
  }));
}

TEST(MemoryPlan, AChainOfBuffersTakesTheRoomOfTwo) {
  std::vector<Lifetime> lives;
  for (int i = 0; i < 100; ++i) lives.push_back({.bytes = 1000, .first = i, .last = i + 1});
  EXPECT_EQ(plan_memory(lives).bytes, 2U * 1024);
}

TEST(MemoryPlan, NothingNeedsNothing) { EXPECT_EQ(plan_memory({}).bytes, 0U); }

}  // namespace
}  // namespace gabbro
