#include "src/models/kv_cache.h"

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

struct TypeCase {
  DType type, elements;
  int64_t bits;    // of a number, without its scale
  int64_t stored;  // elements of 64 numbers
};
constexpr TypeCase kTypes[] = {{DType::f32, DType::f32, 32, 64},
                               {DType::bf16, DType::bf16, 16, 64},
                               {DType::f16, DType::f16, 16, 64},
                               {DType::q8_0, DType::i8, 8, 64},
                               {DType::q4_0, DType::u8, 4, 32}};

TEST(KvCache, HasElementsAndBytesOfEachType) {
  for (const TypeCase& c : kTypes) {
    SCOPED_TRACE(dtype_name(c.type));
    const KvCacheConfig config{
        .layers = {{.heads = 3, .dimension = 64}, {.heads = 1, .dimension = 96, .kind = CacheKind::kLatent}},
        .groups = {{.pages = 5}},
        .dtype = c.type};
    const KvCache cache(open_device("null"), config);
    const KvLayer& layer = cache.layer(0);
    EXPECT_EQ(layer.keys.dtype(), c.elements);
    EXPECT_EQ(layer.keys.shape(), (Shape{5, 3, c.stored, 64}));
    EXPECT_EQ(layer.values.shape(), (Shape{5, 3, 64, c.stored}));
    EXPECT_EQ(cache.latents(1).latents.shape(), (Shape{5, 1, 64, c.stored * 3 / 2}));
    const bool scaled = is_quantized(c.type);
    EXPECT_EQ(layer.key_scales.defined(), scaled);
    EXPECT_EQ(cache.latents(1).scales.defined(), scaled);
    if (scaled) EXPECT_EQ(cache.latents(1).scales.shape(), (Shape{5, 1, 64, 3}));
    const int64_t numbers = 2 * 3 * 64 + 96;
    EXPECT_EQ(config.bytes_per_token(), numbers * c.bits / 8 + (scaled ? numbers / 32 * 2 : 0));
    // The tensors are those bytes.
    const auto bytes = [](const Tensor& t) {
      return t.defined() ? static_cast<int64_t>(dtype_bytes(t.dtype(), static_cast<size_t>(t.shape().elements()))) : 0;
    };
    int64_t all = bytes(cache.latents(1).latents) + bytes(cache.latents(1).scales);
    for (const Tensor* t : {&layer.keys, &layer.values, &layer.key_scales, &layer.value_scales}) all += bytes(*t);
    EXPECT_EQ(all, config.bytes());
  }
}

std::string refusal(DType type, const CacheLayer& layer) {
  try {
    KvCache(open_device("null"), {.layers = {layer}, .groups = {{.pages = 1}}, .dtype = type});
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
}

TEST(KvCache, RefusesOtherTypesAndHeadsThatBlocksDoNotDivide) {
  EXPECT_EQ(refusal(DType::q5_0, {.heads = 1, .dimension = 32}),
            "a KV cache is f32, bf16, f16, q8_0 or q4_0, not q5_0");
  EXPECT_EQ(refusal(DType::q8_0, {.heads = 1, .dimension = 80}),
            "a q8_0 KV cache has blocks of 32 elements, which do not divide this model's heads of 80");
  EXPECT_EQ(refusal(DType::q4_0, {.heads = 1, .dimension = 40, .kind = CacheKind::kLatent}),
            "a q4_0 KV cache has blocks of 32 elements, which do not divide this model's heads of 40");
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    EXPECT_EQ(refusal(type, {.heads = 1, .dimension = 7}), "");
  EXPECT_EQ(refusal(DType::q4_0, {.dimension = 7, .kind = CacheKind::kState}), "");
}

}  // namespace
}  // namespace gabbro::nn
