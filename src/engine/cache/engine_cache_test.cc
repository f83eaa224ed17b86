#include "src/engine/cache/engine_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "src/backend/registry.h"
#include "src/engine/cache/cache_size.h"

namespace gabbro {
namespace {

constexpr nn::CacheLayer kKeys{.heads = 2, .dimension = 32};

EngineCache& made(EngineCache& cache, std::vector<nn::CacheLayer> layers) {
  const CacheSize size{.context = 130, .sequences = 2, .chunk = 64};
  const std::vector devices(layers.size(), open_device("null"));
  cache.make(devices, cache_config(std::move(layers), DType::f16, size), size.context);
  return cache;
}

TEST(EngineCache, HasPagesForTheContextOfEachSequence) {
  EngineCache cache;
  made(cache, {kKeys});
  EXPECT_EQ(cache.pages_per_sequence(), 3);  // of 64 tokens
  ASSERT_EQ(cache.pools.size(), 1u);
  EXPECT_EQ(cache.pools.front().available(), 6);
  EXPECT_FALSE(cache.states.has_slots());
}

TEST(EngineCache, SaysHowFarATextCanBeCut) {
  const nn::CacheLayer state{.kind = nn::CacheKind::kState, .states = {Shape{3}}};
  const nn::CacheLayer text{.heads = 2, .dimension = 32, .kind = nn::CacheKind::kText, .text = 10};
  EngineCache keys, states, both, texts;
  EXPECT_EQ(made(keys, {kKeys}).longest_cut(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(made(states, {state}).longest_cut(), 0);
  EXPECT_EQ(made(both, {kKeys, state}).longest_cut(), 0);
  EXPECT_TRUE(both.states.has_slots());
  EXPECT_EQ(made(texts, {text, text}).longest_cut(), EngineCache::kNoOther);
  EXPECT_TRUE(texts.states.has_slots());
  EXPECT_TRUE(texts.pools.empty());
  EXPECT_EQ(texts.config().bytes_per_token(), 2 * 2 * 32 * 2 * 2);  // layers, heads, elements, both, bytes
  EXPECT_EQ(texts.config().state_bytes(), 10 * texts.config().bytes_per_token());
}

TEST(EngineCache, ForgetsNames) {
  EngineCache cache;
  made(cache, {kKeys});
  const std::array<int32_t, 64> tokens{1, 2, 3};
  const auto before = cache.prefixes_of(0, "");
  EXPECT_EQ(cache.prefixes_of(0, ""), before);
  EXPECT_NE(cache.prefixes_of(1, ""), before);
  EXPECT_NE(cache.prefixes_of(0, "of another key"), before);
  const auto name = before->with(tokens);
  const int32_t page = cache.pools.front().take();
  cache.pools.front().set_name(page, name);
  EXPECT_EQ(cache.pools.front().find(name), page);
  cache.forget_names();
  EXPECT_EQ(cache.pools.front().find(name), -1);
  EXPECT_NE(cache.prefixes_of(0, ""), before);
}

}  // namespace
}  // namespace gabbro
