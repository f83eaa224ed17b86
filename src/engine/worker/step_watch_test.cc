#include "src/engine/worker/step_watch.h"

#include <gtest/gtest.h>

#include <thread>

namespace gabbro::worker {
namespace {

using std::chrono::milliseconds;

TEST(StepWatch, LimitsFollowTheForecast) {
  EXPECT_EQ(step_limit(0), milliseconds(10'000));
  EXPECT_EQ(step_limit(0.4), milliseconds(10'000));
  EXPECT_EQ(step_limit(2), milliseconds(40'000));
  EXPECT_EQ(step_limit(1e30), milliseconds(24 * 3'600'000));
}

TEST(StepWatch, AStepThatIsTooLongIsNoticedOnce) {
  std::atomic<int> calls = 0;
  StepWatch watch([&](milliseconds limit) { calls += limit == milliseconds(50) ? 1 : 100; });
  for (int i = 0; i < 5; ++i) {
    watch.begin(milliseconds(10'000));
    std::this_thread::sleep_for(milliseconds(50));
    watch.end();
  }
  EXPECT_EQ(calls, 0);
  watch.begin(milliseconds(50));
  std::this_thread::sleep_for(milliseconds(600));
  EXPECT_EQ(calls, 1);
}

TEST(StepWatch, TimeInAPauseDoesNotCount) {
  std::atomic<int> calls = 0;
  StepWatch watch([&](milliseconds) { ++calls; });
  watch.begin(milliseconds(400));
  {
    const StepWatch::Pause pause(watch);
    std::this_thread::sleep_for(milliseconds(900));
  }
  watch.end();
  { const StepWatch::Pause pause(watch); }  // outside of a step
  std::this_thread::sleep_for(milliseconds(600));
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace gabbro::worker
