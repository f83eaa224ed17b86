#include "src/models/weights/tensor_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "src/base/error.h"

namespace gabbro::llm {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::vector<std::pair<int64_t, int64_t>> pairs(const std::vector<IndexRange>& ranges) {
  std::vector<std::pair<int64_t, int64_t>> all;
  for (const IndexRange& range : ranges) all.emplace_back(range.first, range.count);
  return all;
}

std::vector<std::pair<int64_t, int64_t>> cuts(int64_t length, int64_t unit, const std::vector<double>& shares) {
  return pairs(cut(length, unit, shares));
}

TEST(TensorShard, CutsAtUnits) {
  EXPECT_THAT(cuts(14336, 256, {1, 1}), ElementsAre(Pair(0, 7168), Pair(7168, 7168)));
  EXPECT_THAT(cuts(768, 256, {1, 1}), ElementsAre(Pair(0, 512), Pair(512, 256)));  // three superblocks
  EXPECT_THAT(cuts(1024, 256, {3, 1}), ElementsAre(Pair(0, 768), Pair(768, 256)));
  EXPECT_THAT(cuts(300, 64, {1, 1, 1}), ElementsAre(Pair(0, 128), Pair(128, 64), Pair(192, 108)));
  EXPECT_THAT(cuts(1024, 256, {100, 1, 1}), ElementsAre(Pair(0, 512), Pair(512, 256), Pair(768, 256)));
  EXPECT_THAT(cuts(96, 32, {1}), ElementsAre(Pair(0, 96)));
}

// Fewer units than devices: neighbors then share a block.
TEST(TensorShard, CutsInsideOfUnitsIfThereAreTooFew) {
  EXPECT_THAT(cuts(768, 256, {1, 1, 1, 1}), ElementsAre(Pair(0, 192), Pair(192, 192), Pair(384, 192), Pair(576, 192)));
  EXPECT_THROW(cuts(3, 1, {1, 1, 1, 1}), Error);
}

TEST(TensorShard, RangesCoverAnyLength) {
  for (const int64_t length : {4, 7, 64, 97, 1000}) {
    for (const int64_t unit : {1, 32, 256}) {
      for (const std::vector<double>& shares : {std::vector<double>{1, 1}, {3, 1}, {1, 7}, {1, 2, 3, 4}}) {
        int64_t end = 0;
        for (const IndexRange& range : cut(length, unit, shares)) {
          EXPECT_EQ(range.first, end);
          EXPECT_GT(range.count, 0);
          end += range.count;
        }
        EXPECT_EQ(end, length);
      }
    }
  }
}

using Heads = std::pair<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>>;

std::vector<Heads> heads_of(int64_t heads, int64_t kv_heads, const std::vector<double>& shares) {
  std::vector<Heads> all;
  for (const HeadRange& one : cut_heads(heads, kv_heads, shares))
    all.push_back({{one.heads.first, one.heads.count}, {one.kv_heads.first, one.kv_heads.count}});
  return all;
}

TEST(TensorShard, KeepsTheHeadsOfAGroupTogether) {
  EXPECT_THAT(heads_of(32, 8, {1, 1}), ElementsAre(Heads{{0, 16}, {0, 4}}, Heads{{16, 16}, {4, 4}}));
  EXPECT_THAT(heads_of(32, 8, {3, 1}), ElementsAre(Heads{{0, 24}, {0, 6}}, Heads{{24, 8}, {6, 2}}));
  EXPECT_THAT(heads_of(32, 8, {1, 1, 1}),
              ElementsAre(Heads{{0, 12}, {0, 3}}, Heads{{12, 8}, {3, 2}}, Heads{{20, 12}, {5, 3}}));
}

TEST(TensorShard, SharesAKvHeadIfThereAreFewerThanDevices) {
  EXPECT_THAT(heads_of(4, 1, {1, 1}), ElementsAre(Heads{{0, 2}, {0, 1}}, Heads{{2, 2}, {0, 1}}));
  EXPECT_THAT(heads_of(8, 2, {1, 1, 1}),
              ElementsAre(Heads{{0, 4}, {0, 1}}, Heads{{4, 2}, {1, 1}}, Heads{{6, 2}, {1, 1}}));
}

TEST(TensorShard, NamesTheCountsThatFit) {
  EXPECT_FALSE(heads_fit(2, 1, 3));
  EXPECT_FALSE(heads_fit(6, 4, 2));
  try {
    heads_of(4, 2, {1, 1, 1, 1, 1});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "4 heads with 2 KV heads cannot be split over 5 devices");
    EXPECT_EQ(error.hint(), "these numbers of devices fit: 1, 2, 3, 4");
  }
}

}  // namespace
}  // namespace gabbro::llm
