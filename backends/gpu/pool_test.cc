// The pool reuses what was freed, gives it back when memory runs short, and counts.
#include "backends/gpu/pool.h"

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

TEST(Pool, CountsBytesAndRequests) {
  const ContextPointer context = open();
  Pool pool(context.get());
  void* a = pool.allocate(1000);
  pool.allocate(3000);
  pool.release(a);
  PoolStatistics s = pool.statistics();
  EXPECT_EQ(s.used, 3000U);
  EXPECT_EQ(s.cached, 1000U);
  EXPECT_EQ(s.peak, 4000U);
  EXPECT_EQ(s.requests, 2U);
  EXPECT_EQ(s.misses, 2U);
  pool.allocate(1000);
  s = pool.statistics();
  EXPECT_EQ(s.used, 4000U);
  EXPECT_EQ(s.cached, 0U);
  EXPECT_EQ(s.requests, 3U);
  EXPECT_EQ(s.misses, 2U) << "the third came from what was kept";
}

TEST(Pool, GivesBackWhatItKeepsWhenMemoryRunsShort) {
  const ContextPointer context = open("malloc:3");
  Pool pool(context.get());
  void* a = pool.allocate(1000);
  void* b = pool.allocate(2000);
  pool.release(a);
  EXPECT_NE(pool.allocate(4000), nullptr) << "the third allocation fails, the next after trimming does not";
  EXPECT_EQ(pool.statistics().cached, 0U);
  EXPECT_EQ(sim::allocation_count(), 2U) << "what was kept is gone, what is used is not";
  pool.release(b);
}

TEST(Pool, IsNullWhereNothingIsLeftToGiveBack) {
  const ContextPointer context = open("malloc:2");
  Pool pool(context.get());
  pool.allocate(1000);
  EXPECT_EQ(pool.allocate(1000), nullptr);
  EXPECT_EQ(pool.statistics().used, 1000U);
}

TEST(Pool, TrimGivesBackOnlyWhatIsFree) {
  const ContextPointer context = open();
  Pool pool(context.get());
  pool.release(pool.allocate(1000));
  pool.allocate(2000);
  pool.trim();
  EXPECT_EQ(sim::allocation_count(), 1U);
  EXPECT_EQ(pool.statistics().cached, 0U);
  EXPECT_EQ(pool.statistics().used, 2000U);
}

TEST(Pool, GivesEverythingBackAtItsEnd) {
  const ContextPointer context = open();
  {
    Pool pool(context.get());
    pool.allocate(1000);
    pool.release(pool.allocate(2000));
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
