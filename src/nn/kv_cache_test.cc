#include "src/nn/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/backend/registry.h"
#include "src/base/error.h"

namespace gabbro::nn {
namespace {

TEST(KvCache, HasTheShapesOfThePagedLayout) {
  const KvCache cache(open_device("null"),
                      {.layers = {{.heads = 1, .dimension = 32, .group = 1}, {.heads = 3, .dimension = 64}},
                       .groups = {{.pages = 5}, {.pages = 2}},
                       .dtype = DType::q8_0});
  EXPECT_EQ(cache.layer(0).keys.shape(), (Shape{2, 1, 32, 64}));
  const KvLayer& layer = cache.layer(1);
  EXPECT_EQ(layer.keys.shape(), (Shape{5, 3, 64, 64}));
  EXPECT_EQ(layer.values.shape(), (Shape{5, 3, 64, 64}));
  EXPECT_EQ(layer.key_scales.shape(), (Shape{5, 3, 2, 64}));
  EXPECT_EQ(layer.value_scales.shape(), (Shape{5, 3, 64, 2}));
  EXPECT_EQ(layer.keys.dtype(), DType::i8);
}

TEST(KvCache, SaysWhatATokenTakes) {
  KvCacheConfig config{.layers = std::vector(30, CacheLayer{.heads = 3, .dimension = 64}), .groups = {{.pages = 1}}};
  EXPECT_EQ(config.bytes_per_token(), 30 * 3 * 64 * 2 * 2);  // keys and values of two bytes
  config.dtype = DType::q8_0;
  EXPECT_EQ(config.bytes_per_token(), 30 * 3 * 2 * (64 + 4));
  config.layers.push_back({.heads = 1, .dimension = 128});  // layers may differ
  EXPECT_EQ(config.bytes_per_token(), 30 * 3 * 2 * (64 + 4) + 2 * (128 + 8));
  config.groups = {{.pages = 1}, {.pages = 7}};
  config.layers.back().group = 1;
  EXPECT_EQ(config.bytes(), 64 * (30 * 3 * 2 * (64 + 4) + 7 * 2 * (128 + 8)));
}

TEST(KvCache, RefusesOtherFormatsAndOddHeads) {
  const auto device = open_device("null");
  EXPECT_THROW(
      KvCache(device, {.layers = {{.heads = 1, .dimension = 32}}, .groups = {{.pages = 1}}, .dtype = DType::f32}),
      Error);
  try {
    KvCache(device, {.layers = {{.heads = 1, .dimension = 80}}, .groups = {{.pages = 1}}, .dtype = DType::q8_0});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_STREQ(error.what(), "a q8_0 KV cache needs heads of a multiple of 32 elements; this model's have 80");
  }
}

}  // namespace
}  // namespace gabbro::nn
