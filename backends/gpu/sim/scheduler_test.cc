// The orders in which the simulator does the work of several streams.
#include "backends/gpu/sim/scheduler.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gabbro::gpu::sim {
namespace {

// Two streams of four pieces each; b's third waits for a's second.
std::string order_of(uint64_t seed) {
  Scheduler scheduler(seed);
  const Scheduler::Stream a = scheduler.add_stream(), b = scheduler.add_stream();
  std::string order;
  const auto add = [&](Scheduler::Stream stream, char piece) {
    scheduler.enqueue(stream, [&order, piece] { order += piece; });
  };
  add(a, '1');
  add(a, '2');
  const auto marker = scheduler.mark(a);
  add(a, '3');
  add(a, '4');
  add(b, 'w');
  add(b, 'x');
  scheduler.wait(b, marker);
  add(b, 'y');
  add(b, 'z');
  scheduler.finish(a);
  scheduler.finish(b);
  scheduler.remove_stream(a);
  scheduler.remove_stream(b);
  return order;
}

bool comes_before(const std::string& order, char first, char second) { return order.find(first) < order.find(second); }

TEST(Scheduler, KeepsTheOrderOfEachStreamAndOfWaits) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string order = order_of(seed);
    ASSERT_EQ(order.size(), 8U) << order;
    for (const char* pair : {"12", "23", "34", "wx", "xy", "yz", "2y"})
      EXPECT_TRUE(comes_before(order, pair[0], pair[1])) << seed << " " << order;
  }
}

TEST(Scheduler, ChoosesManyOrders) {
  std::set<std::string> orders;
  bool ahead = false, behind = false;
  for (uint64_t seed = 1; seed < 200; ++seed) {
    const std::string order = order_of(seed);
    orders.insert(order);
    ahead = ahead || comes_before(order, 'w', '1');
    behind = behind || comes_before(order, '4', 'w');
  }
  EXPECT_GT(orders.size(), 20U);
  EXPECT_TRUE(ahead && behind);
  EXPECT_EQ(order_of(5), order_of(5)) << "a seed is an order";
  EXPECT_EQ(order_of(0), "1234wxyz") << "without a seed everything is done at once";
}

TEST(Scheduler, DefersUntilSomebodyWaits) {
  bool deferred = false;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    Scheduler scheduler(seed);
    const Scheduler::Stream stream = scheduler.add_stream();
    bool done = false;
    scheduler.enqueue(stream, [&done] { done = true; });
    deferred = deferred || !done;
    scheduler.finish_all();
    EXPECT_TRUE(done);
    scheduler.remove_stream(stream);
  }
  EXPECT_TRUE(deferred);
}

}  // namespace
}  // namespace gabbro::gpu::sim
