#include "src/engine/speculation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gabbro {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int32_t> lookup(const std::vector<int32_t>& tokens, int count) {
  return PromptLookup(8).propose(tokens, count, nullptr);
}

TEST(PromptLookup, TakesWhatFollowedTheLongestMatch) {
  // "1 2 3" was followed by 4 5; the later "3" by 9.
  EXPECT_THAT(lookup({1, 2, 3, 4, 5, 3, 9, 1, 2, 3}, 2), ElementsAre(4, 5));
}

TEST(PromptLookup, TakesTheLastOfSeveralMatches) { EXPECT_THAT(lookup({7, 1, 8, 7, 2, 8, 7}, 1), ElementsAre(2)); }

TEST(PromptLookup, GoesOnInACircleWhereTheMatchReachesTheEnd) {
  EXPECT_THAT(lookup({1, 2, 1, 2, 1}, 5), ElementsAre(2, 1, 2, 1, 2));
}

TEST(PromptLookup, HasNoIdeaOfATextWithoutRepetition) {
  EXPECT_THAT(lookup({1, 2, 3, 4}, 4), IsEmpty());
  EXPECT_THAT(lookup({1}, 4), IsEmpty());
  EXPECT_THAT(lookup({}, 4), IsEmpty());
}

TEST(DraftLength, GrowsWithWhatIsRightAndShrinksWithWhatIsNot) {
  DraftLength length(32);
  for (int i = 0; i < 20; ++i) length.seen(8, 8);
  EXPECT_EQ(length.next(), 32);
  for (int i = 0; i < 40; ++i) length.seen(8, 0);
  EXPECT_EQ(length.next(), 1);
}

}  // namespace
}  // namespace gabbro
