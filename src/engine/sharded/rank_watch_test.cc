// The watch names the device that is stuck, at times of a clock that the test sets.
#include "src/engine/sharded/rank_watch.h"

#include <gtest/gtest.h>

namespace gabbro::sharded {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr RankWatch::Clock::time_point kBegin{};

TEST(RankWatch, ADeviceThatTheHostWaitsForIsStuckAfterTheLimit) {
  RankWatch watch({{.name = "sim:0"}, {.name = "sim:1"}});
  watch.begin(kBegin);
  watch.waits_for_device(0, 1, kBegin + seconds(1));
  EXPECT_FALSE(watch.stuck(kBegin + seconds(5)));
  EXPECT_EQ(watch.stuck(kBegin + milliseconds(5001)), "sim:1");
}

TEST(RankWatch, ADeviceIsBehindTheFirstOne) {
  RankWatch watch({{.name = "sim:0"}, {.name = "sim:1"}, {.name = "sim:2"}});
  watch.begin(kBegin);
  EXPECT_FALSE(watch.stuck(kBegin + seconds(3600))) << "all compute: a large step";
  watch.waits_for_others(2, kBegin + milliseconds(10));
  watch.waits_for_others(0, kBegin + seconds(3));
  EXPECT_FALSE(watch.stuck(kBegin + seconds(4)));
  EXPECT_EQ(watch.stuck(kBegin + milliseconds(4011)), "sim:1");
  watch.begin(kBegin + seconds(5));
  EXPECT_FALSE(watch.stuck(kBegin + seconds(3600)));
  watch.waits_for_others(1, kBegin + seconds(6));  // has needed 1 s: the others may take 20
  EXPECT_FALSE(watch.stuck(kBegin + seconds(25)));
  EXPECT_EQ(watch.stuck(kBegin + seconds(27)), "sim:0");
}

TEST(RankWatch, ACpuMayTakeItsTime) {
  RankWatch watch({{.name = "sim:0"}, {.name = "cpu", .is_watched = false}});
  watch.begin(kBegin);
  watch.waits_for_others(0, kBegin);
  EXPECT_FALSE(watch.stuck(kBegin + seconds(3600)));
}

}  // namespace
}  // namespace gabbro::sharded
