#include "backends/cpu/block_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace gabbro::cpu {
namespace {

constexpr size_t kPage = BlockCache::kHugePage;

void* block(size_t pages) { return std::aligned_alloc(kPage, pages * kPage); }

TEST(BlockCache, GivesOutAgainWhatWasPutThere) {
  BlockCache kept;
  EXPECT_EQ(kept.take(kPage), nullptr);
  void *one = block(1), *two = block(2), *other = block(1);
  kept.put(one, kPage);
  kept.put(two, 2 * kPage);
  kept.put(other, kPage);
  EXPECT_EQ(kept.bytes(), 4 * kPage);
  EXPECT_EQ(kept.take(3 * kPage), nullptr);
  EXPECT_EQ(kept.take(kPage), other) << "the newest is likelier to be in a cache";
  EXPECT_EQ(kept.take(kPage), one);
  EXPECT_EQ(kept.take(kPage), nullptr);
  EXPECT_EQ(kept.clear(), 2 * kPage);
  EXPECT_EQ(kept.take(2 * kPage), nullptr);
  std::free(one);
  std::free(other);
}

TEST(BlockCache, KeepsNoMoreThanItSays) {
  BlockCache kept;
  kept.put(block(17), 17 * kPage);
  EXPECT_EQ(kept.bytes(), 0u) << "too large";
  kept.put(block(1), kPage);
  kept.put(block(16), 16 * kPage);
  kept.put(block(16), 16 * kPage);
  EXPECT_EQ(kept.bytes(), BlockCache::kMost);
  EXPECT_EQ(kept.take(kPage), nullptr) << "the oldest was freed";
}

}  // namespace
}  // namespace gabbro::cpu
