#include "backends/cpu/small_blocks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace gabbro::cpu {
namespace {

constexpr size_t kUnit = SmallBlocks::kUnit;

void* block(size_t bytes) { return std::aligned_alloc(kUnit, bytes); }

#if !defined(__SANITIZE_ADDRESS__)  // which keeps none
TEST(SmallBlocks, GivesOutAgainWhatWasPutThere) {
  SmallBlocks kept;
  EXPECT_EQ(kept.take(kUnit), nullptr);
  void *one = block(kUnit), *two = block(2 * kUnit), *other = block(kUnit);
  kept.put(one, kUnit + 8);  // as malloc_usable_size says it
  kept.put(two, 2 * kUnit);
  kept.put(other, kUnit);
  EXPECT_EQ(kept.take(3 * kUnit), nullptr);
  EXPECT_EQ(kept.take(kUnit), other) << "the newest is likelier to be in a cache";
  EXPECT_EQ(kept.take(kUnit), one);
  EXPECT_EQ(kept.take(kUnit), nullptr);
  EXPECT_EQ(kept.clear(), 2 * kUnit);
  EXPECT_EQ(kept.take(2 * kUnit), nullptr);
  std::free(one);
  std::free(other);
}
#endif

TEST(SmallBlocks, KeepsNoMoreThanItSays) {
  SmallBlocks kept;
  for (size_t i = 0; i < 2 * SmallBlocks::kMost; ++i) kept.put(block(SmallBlocks::kLargest), SmallBlocks::kLargest);
  EXPECT_LE(kept.clear(), SmallBlocks::kMost * SmallBlocks::kLargest);
  kept.put(block(SmallBlocks::kLargest + kUnit), SmallBlocks::kLargest + kUnit);
  EXPECT_EQ(kept.clear(), 0u) << "too large";
}

}  // namespace
}  // namespace gabbro::cpu
