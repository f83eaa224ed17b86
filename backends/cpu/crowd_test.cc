#include "backends/cpu/crowd.h"

#include <gtest/gtest.h>

namespace gabbro::cpu {
namespace {

using namespace std::chrono_literals;

constexpr Crowd::Clock::time_point kStart{};

TEST(Crowd, cores_are_free_at_first_and_after_launches_that_do_not_wait) {
  Crowd crowd;
  EXPECT_FALSE(crowd.is_crowded(kStart + 1ms));
  crowd.ran(2, 1ms, 100us, kStart + 1ms);
  crowd.ran(2, 90ms, 40ms, kStart + 1ms);  // a long launch with uneven pieces
  EXPECT_FALSE(crowd.is_crowded(kStart + 1ms));
}

TEST(Crowd, a_long_wait_in_a_short_launch_is_a_crowd_for_a_while) {
  Crowd crowd;
  crowd.ran(2, 8ms, 7900us, kStart);
  EXPECT_TRUE(crowd.is_crowded(kStart + 49ms));
  EXPECT_FALSE(crowd.is_crowded(kStart + 51ms));
}

TEST(Crowd, the_team_is_tried_less_often_while_the_crowd_stays) {
  Crowd crowd;
  for (int trial = 0; trial < 5; ++trial) crowd.ran(2, 8ms, 7900us, kStart);
  EXPECT_TRUE(crowd.is_crowded(kStart + 999ms));
  EXPECT_FALSE(crowd.is_crowded(kStart + 1001ms));
  for (int launch = 0; launch < 5; ++launch) crowd.ran(2, 1ms, 0us, kStart + 2s);  // it has gone
  crowd.ran(2, 8ms, 7900us, kStart + 3s);
  EXPECT_TRUE(crowd.is_crowded(kStart + 3s + 40ms));
  EXPECT_FALSE(crowd.is_crowded(kStart + 3s + 60ms));
}

}  // namespace
}  // namespace gabbro::cpu
