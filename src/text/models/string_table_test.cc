#include "src/text/models/string_table.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "src/text/models/merge_table.h"

namespace gabbro::text {
namespace {

TEST(StringTable, FindsWhatWasAddedAndNothingElse) {
  std::deque<std::string> keys;
  StringTable table;  // grows many times
  for (int i = 0; i < 5000; ++i)
    EXPECT_EQ(table.add(keys.emplace_back(std::string(static_cast<size_t>(i % 40), 'x') + std::to_string(i))), i);
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(table.find(keys[static_cast<size_t>(i)]), i);
  EXPECT_EQ(table.find("y"), StringTable::kNone);
  EXPECT_EQ(table.find(""), StringTable::kNone);
  EXPECT_EQ(table.size(), 5000U);
  EXPECT_TRUE(table.unique());
}

TEST(StringTable, TheFirstOfEqualKeysIsFound) {
  StringTable table(3);
  EXPECT_EQ(table.add("a"), 0);
  EXPECT_EQ(table.add("a"), 1);
  EXPECT_EQ(table.add(""), 2);
  EXPECT_EQ(table.find("a"), 0);
  EXPECT_EQ(table.find(""), StringTable::kNone);
  EXPECT_EQ(table.key(1), "a");
  EXPECT_FALSE(table.unique());
}

TEST(StringTable, HashDependsOnEveryByte) {
  for (size_t size = 1; size < 70; ++size) {
    std::string text(size, 'a');
    const uint64_t before = hash_bytes(text);
    for (char& byte : text) {
      byte ^= 1;
      EXPECT_NE(hash_bytes(text), before) << size;
      byte ^= 1;
    }
  }
}

TEST(MergeTable, TheFirstOfEqualPairsCounts) {
  MergeTable table(3);
  table.add(1, 2, {.rank = 0, .result = 3});
  table.add(1, 2, {.rank = 1, .result = 4});
  table.add(2, 1, {.rank = 2, .result = 5});
  EXPECT_EQ(table.find(1, 2).result, 3);
  EXPECT_EQ(table.find(2, 1).rank, 2U);
  EXPECT_EQ(table.find(2, 2).rank, Merge::kNever);
  EXPECT_EQ(table.find(-7, 1).rank, Merge::kNever);
}

}  // namespace
}  // namespace gabbro::text
