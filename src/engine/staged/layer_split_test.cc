#include "src/engine/staged/layer_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/error.h"

namespace gabbro::staged {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

LayerSizes equal_layers(size_t count) {
  return {.weights = std::vector<uint64_t>(count, 100 * kMiB), .cache = std::vector<uint64_t>(count, 0)};
}

std::vector<int64_t> counts(const LayerSizes& sizes, std::vector<StageDevice> devices) {
  std::vector<int64_t> counts;
  int64_t end = 0;
  for (const llm::LayerRange& range : split_layers(sizes, devices)) {
    EXPECT_EQ(range.first, end);
    EXPECT_EQ(range.has_first, range.first == 0);
    EXPECT_EQ(range.has_last, range.end == std::ssize(sizes.weights));
    counts.push_back(range.count());
    end = range.end;
  }
  EXPECT_EQ(end, std::ssize(sizes.weights));
  return counts;
}

TEST(LayerSplit, FollowsTheSpeeds) {
  EXPECT_THAT(counts(equal_layers(8), {{.speed = 1}, {.speed = 1}}), ElementsAre(4, 4));
  EXPECT_THAT(counts(equal_layers(8), {{.speed = 3}, {.speed = 1}}), ElementsAre(6, 2));
  EXPECT_THAT(counts(equal_layers(7), {{.speed = 1}, {.speed = 1}, {.speed = 5}}), ElementsAre(1, 1, 5));
  EXPECT_THAT(counts(equal_layers(3), {{.speed = 1}, {.speed = 1}, {.speed = 100}}), ElementsAre(1, 1, 1));
  EXPECT_THAT(counts(equal_layers(5), {{.speed = 2}}), ElementsAre(5));
}

TEST(LayerSplit, CountsTheHeadAndNotTheEmbeddings) {
  LayerSizes sizes = equal_layers(8);
  sizes.embeddings = sizes.head = 200 * kMiB;
  EXPECT_THAT(counts(sizes, {{.speed = 1}, {.speed = 1}}), ElementsAre(5, 3));
  EXPECT_EQ(memory_of(sizes, {.first = 0, .end = 5, .has_first = true}), 700 * kMiB);
  EXPECT_EQ(memory_of(sizes, {.first = 5, .end = 8, .has_last = true}), 500 * kMiB);
}

TEST(LayerSplit, KeepsWithinTheMemory) {
  LayerSizes sizes = equal_layers(8);
  EXPECT_THAT(counts(sizes, {{.speed = 1, .memory = 250 * kMiB}, {.speed = 1, .memory = 1000 * kMiB}}),
              ElementsAre(2, 6));
  sizes.cache.assign(8, 25 * kMiB);
  EXPECT_THAT(counts(sizes, {{.speed = 1, .memory = 240 * kMiB}, {.speed = 1, .memory = 875 * kMiB}}),
              ElementsAre(1, 7));
}

TEST(LayerSplit, SaysWhyThereIsNone) {
  try {
    split_layers(equal_layers(2), std::vector<StageDevice>(3));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_STREQ(error.what(), "a model of 2 layers cannot be split over 3 devices");
  }
  const StageDevice devices[] = {{.name = "sim:0", .memory = 300 * kMiB}, {.name = "sim:1", .memory = 450 * kMiB}};
  try {
    split_layers(equal_layers(8), devices);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoDevice);
    EXPECT_STREQ(error.what(), "weights and cache of 800 MiB do not fit: sim:0 has 300 MiB, sim:1 has 450 MiB");
  }
}

}  // namespace
}  // namespace gabbro::staged
