#include "src/engine/cache/state_pool.h"

#include <gtest/gtest.h>

#include "src/backend/registry.h"
#include "src/base/error.h"

namespace gabbro {
namespace {

TEST(StatePool, GivesAFreedSlotAndElseTheOneThatWasUsedTheLongestTimeAgo) {
  StatePool pool(2);
  auto a = std::make_shared<SequenceState>(), b = std::make_shared<SequenceState>(),
       c = std::make_shared<SequenceState>();
  pool.begin_step();
  pool.take(a);
  pool.begin_step();
  pool.take(b);
  EXPECT_NE(a->slot, b->slot);
  a->length = b->length = 5;
  pool.begin_step();
  const int32_t of_a = a->slot;
  pool.take(c);
  EXPECT_EQ(c->slot, of_a);
  EXPECT_EQ(a->slot, -1);
  EXPECT_EQ(a->length, 0);
  EXPECT_EQ(b->length, 5);
  const int32_t of_b = b->slot;
  b.reset();
  pool.take(a);
  EXPECT_EQ(a->slot, of_b);
}

TEST(StatePool, RefusesMoreSequencesInAStepThanItHasSlots) {
  StatePool pool(1);
  const auto a = std::make_shared<SequenceState>(), b = std::make_shared<SequenceState>();
  pool.begin_step();
  pool.take(a);
  pool.take(a);
  EXPECT_THROW(pool.take(b), Error);
}

TEST(StatePool, WithoutSlotsGivesNoneAndLosesNothing) {
  StatePool pool(0);
  const auto a = std::make_shared<SequenceState>();
  pool.begin_step();
  pool.take(a);
  EXPECT_EQ(a->slot, -1);
  EXPECT_FALSE(pool.has_lost(*a, 5));
  const int32_t slots[] = {-1};
  EXPECT_FALSE(pool.upload(*open_device("null"), slots).defined());
}

TEST(StatePool, UploadsTheSlotsOfAStep) {
  StatePool pool(2);
  const auto a = std::make_shared<SequenceState>();
  pool.begin_step();
  pool.take(a);
  EXPECT_TRUE(pool.has_lost(*a, 5));
  a->length = 5;
  EXPECT_FALSE(pool.has_lost(*a, 5));
  const int32_t slots[] = {a->slot};
  EXPECT_EQ(pool.upload(*open_device("null"), slots).shape(), Shape{1});
}

}  // namespace
}  // namespace gabbro
