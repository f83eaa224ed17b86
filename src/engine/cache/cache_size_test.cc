#include "src/engine/cache/cache_size.h"

#include <gtest/gtest.h>

namespace gabbro {
namespace {

nn::CacheLayer layer_of(int64_t window) { return {.heads = 2, .dimension = 32, .window = window}; }

// 33,000 tokens are 516 pages. A window of 512 and 64 tokens that may be cut: 575 tokens, in 9 pages, and two for where
// they and a step begin; of the step 8.
TEST(CacheSize, LayersWithAWindowHavePagesOfTheWindowAndTheStep) {
  const std::vector<nn::CacheLayer> layers = {layer_of(512), layer_of(0), layer_of(512), layer_of(100)};
  const nn::KvCacheConfig config = cache_config(layers, DType::f16, {.context = 33000, .chunk = 512});
  ASSERT_EQ(config.groups.size(), 3U);
  EXPECT_EQ(config.groups[0].pages, 9 + 2 + 8);
  EXPECT_EQ(config.groups[0].window, 512);
  EXPECT_EQ(config.groups[1].pages, 516);
  EXPECT_EQ(config.groups[1].window, 0);
  EXPECT_EQ(config.groups[2].pages, 3 + 2 + 8);
  EXPECT_EQ(config.layers[2].group, 0U);
  EXPECT_EQ(config.layers[1].group, 1U);
  constexpr int64_t kToken = 2 * 2 * 32 * 2;  // keys and values of two heads in f16
  EXPECT_EQ(config.bytes(), kToken * 64 * (2 * 19 + 516 + 13));
  // Four sequences, one step of them all, and a window for pages that are found again.
  const nn::KvCacheConfig four = cache_config(layers, DType::f16, {.context = 33000, .sequences = 4, .chunk = 512});
  EXPECT_EQ(four.groups[0].pages, 5 * 11 + 8);
  EXPECT_EQ(four.groups[1].pages, 4 * 516);
}

TEST(CacheSize, AWindowThatSavesNothingIsNone) {
  const nn::KvCacheConfig config =
      cache_config({layer_of(0), layer_of(4096), layer_of(512)}, DType::f16, {.context = 1216, .chunk = 512});
  ASSERT_EQ(config.groups.size(), 1U);
  EXPECT_EQ(config.groups[0].pages, 19);
  EXPECT_EQ(config.groups[0].window, 0);
  EXPECT_EQ(cache_config({}, DType::f16, {.context = 65}).groups.front().pages, 2);
}

TEST(CacheSize, TheLongestContextIsTheLastThatFits) {
  const auto at_most = [](int64_t limit) { return [=](int64_t context) { return context <= limit; }; };
  EXPECT_EQ(longest_context(4096, at_most(1000)), 960);
  EXPECT_EQ(longest_context(4096, at_most(63)), 0);
}

}  // namespace
}  // namespace gabbro
