#include "src/engine/cache/prefix.h"

#include <gtest/gtest.h>

#include <vector>

namespace gabbro {
namespace {

std::vector<int32_t> page_from(int32_t first) {
  std::vector<int32_t> tokens(Prefix::kTokens);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = first + static_cast<int32_t>(i);
  return tokens;
}

TEST(Prefix, IsTheSameForTheSameTokensAfterTheSame) {
  const auto empty = Prefix::empty();
  const auto first = empty->with(page_from(1)), second = first->with(page_from(1));
  EXPECT_NE(first, second);
  EXPECT_EQ(empty->with(page_from(1)), first);
  EXPECT_EQ(empty->find(page_from(1)), first);
  EXPECT_EQ(first->find(page_from(1)), second);
  EXPECT_EQ(second->find(page_from(1)), nullptr);
  EXPECT_EQ(Prefix::empty()->find(page_from(1)), nullptr);  // of another tree
}

TEST(Prefix, LivesWhileItOrALongerOneIsHeld) {
  const auto empty = Prefix::empty();
  auto longest = empty->with(page_from(1))->with(page_from(2))->with(page_from(3));
  ASSERT_NE(empty->find(page_from(1)), nullptr);
  EXPECT_EQ(empty->find(page_from(1))->find(page_from(2))->find(page_from(3)), longest);
  auto middle = empty->find(page_from(1))->find(page_from(2));
  longest.reset();
  EXPECT_EQ(middle->find(page_from(3)), nullptr);
  EXPECT_EQ(empty->find(page_from(1))->find(page_from(2)), middle);
  middle.reset();
  EXPECT_EQ(empty->find(page_from(1)), nullptr);
}

TEST(Prefix, OfAMillionPagesEndsWithoutRecursion) {
  const auto empty = Prefix::empty();
  auto last = empty;
  for (int32_t i = 0; i < 1000000; ++i) last = last->with(page_from(i));
  last.reset();
  EXPECT_EQ(empty->find(page_from(0)), nullptr);
}

}  // namespace
}  // namespace gabbro
