// The pool reuses freed pieces, hands out reservations, releases pieces when memory runs short, and counts.
#include "backends/gpu/memory/pool.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "backends/gpu/sim/memory.h"

namespace gabbro::gpu {
namespace {

using ContextPointer = std::unique_ptr<api::Context, decltype(&api::close)>;

ContextPointer open(const char* fault = "") {
  ::setenv("GABBRO_SIM_FAIL", fault, 1);
  ContextPointer context(api::open(0), api::close);
  ::unsetenv("GABBRO_SIM_FAIL");
  return context;
}

TEST(Pool, ReusesWhatWasFreed) {
  const ContextPointer context = open();
  Pool pool(context.get());
  void *a = pool.allocate(1000), *b = pool.allocate(1000);
  EXPECT_NE(a, b);
  pool.release(a);
  EXPECT_EQ(pool.allocate(1000), a);
  void* other = pool.allocate(5000);
  pool.release(b);
  EXPECT_NE(pool.allocate(5000), b) << "of another size";
  EXPECT_EQ(pool.allocate(1000), b);
  EXPECT_NE(other, nullptr);
}

TEST(Pool, KeepsNothingThatIsReleased) {
  const ContextPointer context = open();
  Pool pool(context.get());
  pool.allocate(1000);
  pool.release_unpooled(pool.allocate(5000));
  pool.release_unpooled(nullptr);
  const abi::PoolFacts facts = pool.facts();
  EXPECT_EQ(facts.reserved, 1000U);
  EXPECT_EQ(facts.in_use, 1000U);
  EXPECT_EQ(facts.releases, 1U);
  ASSERT_TRUE(pool.reserve(1 << 20));
  void* part = pool.allocate(Pool::kReservedPiece);
  pool.release_unpooled(part);
  EXPECT_EQ(pool.allocate(Pool::kReservedPiece), part) << "what was reserved stays";
}

TEST(Pool, CountsBytesAndRequests) {
  const ContextPointer context = open();
  Pool pool(context.get());
  void* a = pool.allocate(1000);
  pool.allocate(3000);
  pool.release(a);
  abi::PoolFacts facts = pool.facts();
  EXPECT_EQ(facts.in_use, 3000U);
  EXPECT_EQ(facts.reserved, 4000U);
  EXPECT_EQ(facts.in_use_peak, 4000U);
  EXPECT_EQ(facts.allocations, 2U);
  EXPECT_EQ(facts.releases, 1U);
  EXPECT_EQ(facts.hits, 0U);
  pool.allocate(1000);
  facts = pool.facts();
  EXPECT_EQ(facts.in_use, 4000U);
  EXPECT_EQ(facts.reserved, 4000U);
  EXPECT_EQ(facts.allocations, 3U);
  EXPECT_EQ(facts.hits, 1U) << "the third came from what was kept";
}

TEST(Pool, PeaksAndCountsAreReset) {
  const ContextPointer context = open();
  Pool pool(context.get());
  pool.release(pool.allocate(5000));
  pool.allocate(1000);
  pool.reset_facts();
  const abi::PoolFacts facts = pool.facts();
  EXPECT_EQ(facts.in_use, 1000U);
  EXPECT_EQ(facts.in_use_peak, 1000U);
  EXPECT_EQ(facts.reserved, 6000U);
  EXPECT_EQ(facts.reserved_peak, 6000U);
  EXPECT_EQ(facts.allocations, 0U);
  EXPECT_EQ(facts.releases, 0U);
  EXPECT_EQ(facts.hits, 0U);
}

TEST(Pool, ReleasesItsCacheWhenMemoryRunsShort) {
  const ContextPointer context = open("malloc:3");
  Pool pool(context.get());
  void* a = pool.allocate(1000);
  void* b = pool.allocate(2000);
  pool.release(a);
  EXPECT_NE(pool.allocate(4000), nullptr) << "the third allocation fails, the next after trimming does not";
  EXPECT_EQ(pool.facts().reserved, pool.facts().in_use);
  EXPECT_EQ(pool.facts().retries, 1U);
  EXPECT_EQ(sim::allocation_count(), 2U) << "what was kept is gone, what is used is not";
  pool.release(b);
}

TEST(Pool, IsNullIfNothingIsLeftToRelease) {
  const ContextPointer context = open("malloc:2");
  Pool pool(context.get());
  pool.allocate(1000);
  EXPECT_EQ(pool.allocate(1000), nullptr);
  EXPECT_EQ(pool.facts().in_use, 1000U);
  EXPECT_EQ(pool.facts().failures, 1U);
}

TEST(Pool, TrimReleasesOnlyFreeMemory) {
  const ContextPointer context = open();
  Pool pool(context.get());
  pool.release(pool.allocate(1000));
  pool.allocate(2000);
  EXPECT_EQ(pool.trim(), 1000U);
  EXPECT_EQ(sim::allocation_count(), 1U);
  EXPECT_EQ(pool.facts().reserved, 2000U);
  EXPECT_EQ(pool.facts().in_use, 2000U);
  EXPECT_EQ(pool.trim(), 0U);
}

TEST(Pool, GivesOutWhatWasReserved) {
  const ContextPointer context = open("malloc:2");
  Pool pool(context.get());
  ASSERT_TRUE(pool.reserve(999900));
  EXPECT_EQ(pool.facts().reserved, 999936U) << "rounded up to what pieces begin at";
  EXPECT_EQ(pool.facts().in_use, 0U);
  void *a = pool.allocate(70000), *b = pool.allocate(500000);
  EXPECT_EQ(sim::allocation_count(), 1U);
  EXPECT_EQ(static_cast<std::byte*>(b) - static_cast<std::byte*>(a), 70144);
  EXPECT_EQ(pool.facts().hits, 2U);
  EXPECT_EQ(pool.facts().in_use, 70144U + 500224U);
  EXPECT_EQ(pool.trim(), 0U) << "a part of it is in use";
  pool.release(a);
  pool.release(b);
  EXPECT_EQ(pool.allocate(999936), a) << "the freed pieces were merged";
  EXPECT_EQ(pool.allocate(1), nullptr) << "and the runtime's next allocation fails";
  pool.release(a);
  EXPECT_EQ(pool.trim(), 999936U);
  EXPECT_EQ(sim::allocation_count(), 0U);
}

TEST(Pool, SmallPiecesDoNotHoldWhatWasReserved) {
  const ContextPointer context = open();
  Pool pool(context.get());
  ASSERT_TRUE(pool.reserve(1 << 20));
  EXPECT_NE(pool.allocate(4), nullptr);
  EXPECT_EQ(pool.trim(), size_t{1} << 20);
}

TEST(Pool, ReservesNothingWhereThereIsNothing) {
  const ContextPointer context = open("malloc:1");
  Pool pool(context.get());
  EXPECT_FALSE(pool.reserve(1000));
  EXPECT_EQ(pool.facts().reserved, 0U);
  EXPECT_EQ(pool.facts().failures, 1U);
}

TEST(Pool, KnowsWhichAddressesAreItsOwn) {
  const ContextPointer context = open();
  Pool pool(context.get(), {api::allocate_pinned, api::release_pinned});
  auto* const a = static_cast<std::byte*>(pool.allocate(1000));
  EXPECT_TRUE(pool.holds(a));
  EXPECT_TRUE(pool.holds(a + 999));
  EXPECT_FALSE(pool.holds(a + 1000));
  EXPECT_FALSE(pool.holds(a - 1));
  pool.release(a);
  EXPECT_FALSE(pool.holds(a)) << "it is cached and unused";
}

TEST(Pool, GivesEverythingBackAtItsEnd) {
  const ContextPointer context = open();
  {
    Pool pool(context.get());
    pool.allocate(1000);
    pool.release(pool.allocate(2000));
    pool.reserve(300000);
    pool.allocate(100000);
  }
  EXPECT_EQ(sim::allocation_count(), 0U);
}

TEST(Pool, TakesNothingAndRefusesWhatIsNotItsOwn) {
  const ContextPointer context = open();
  Pool pool(context.get());
  pool.release(nullptr);
  EXPECT_NE(pool.allocate(0), nullptr);
  int other = 0;
  EXPECT_THROW(pool.release(&other), std::logic_error);
}

}  // namespace
}  // namespace gabbro::gpu
