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

// Proposes exactly the requested number of tokens.
class EagerDrafter : public Drafter {
 public:
  std::vector<int32_t> propose(std::span<const int32_t>, int count, const std::atomic<bool>*) override {
    return std::vector<int32_t>(static_cast<size_t>(count), 7);
  }
  int most() const override { return 32; }
};

size_t drafted_with(DraftBudget& budget) {
  budget.begin(64, 8);
  const int32_t text[] = {1, 2, 3};
  return EagerDrafter().propose_tree(text, budget, nullptr).nodes.size();
}

TEST(DraftBudget, GrowsWithWhatIsRightAndShrinksWithWhatIsNot) {
  DraftBudget budget(32, 1000);
  for (int i = 0; i < 30; ++i) budget.seen(8, 8);
  EXPECT_EQ(drafted_with(budget), 32u);
  for (int i = 0; i < 40; ++i) budget.seen(8, 0);
  EXPECT_EQ(drafted_with(budget), 1u);
}

TEST(DraftBudget, GrowsWithTheCostOfAPass) {
  size_t before = 0;
  for (const double cost : {1.0, 10.0, 100.0}) {
    DraftBudget budget(32, cost);
    const size_t drafted = drafted_with(budget);
    EXPECT_GT(drafted, before) << cost;
    before = drafted;
  }
}

TEST(DraftBudget, MeasuresWhatAPassCosts) {
  DraftBudget budget(32, 1);
  for (const int tokens : {1, 4, 9, 2, 12})
    budget.passed(tokens, 0.5 + 0.01 * tokens);  // reading takes 50 tokens' time
  EXPECT_NEAR(budget.pass_cost(), 50, 1e-6);
}

TEST(PromptLookup, FollowsSeveralMatchesTheBestOneFurthest) {
  const std::vector<int32_t> text = {1, 2, 5, 6, 9, 2, 7, 8, 9, 1, 2};  // "1 2" was followed by 5, the later "2" by 7
  DraftBudget budget(32, 1000);
  budget.begin(4, 1);
  const TokenTree tree = PromptLookup(32).propose_tree(text, budget, nullptr);
  const int32_t best = tree.child(-1, 5), other = tree.child(-1, 7);
  ASSERT_GE(best, 0);
  ASSERT_GE(other, 0);
  EXPECT_GE(tree.child(best, 6), 0);
  EXPECT_EQ(tree.leaves().size(), 2u);
  budget.begin(4, 0);  // no room for a branch
  EXPECT_EQ(PromptLookup(32).propose_tree(text, budget, nullptr).leaves().size(), 1u);
}

TEST(TokenTree, KnowsPathsAndLeaves) {
  TokenTree tree;
  const int32_t a = tree.add(-1, 10), b = tree.add(a, 11), c = tree.add(a, 12), d = tree.add(c, 13);
  EXPECT_THAT(tree.leaves(), ElementsAre(b, d));
  EXPECT_THAT(tree.path(d), ElementsAre(a, c, d));
  EXPECT_EQ(tree.child(a, 12), c);
  EXPECT_EQ(tree.child(-1, 12), -1);
  EXPECT_TRUE(tree.has_children(a));
  EXPECT_FALSE(tree.has_children(d));
}

}  // namespace
}  // namespace gabbro
