#include "src/engine/step_forecast.h"

#include <gtest/gtest.h>

namespace gabbro {
namespace {

TEST(StepForecast, BeginsWithASlowMachine) {
  ModelFacts facts;
  facts.weight_bytes = 4'000'000'000;
  facts.parameters = 5'000'000'000;
  facts.streaming.seconds_per_pass = 3;
  const StepForecast forecast(facts);
  EXPECT_DOUBLE_EQ(forecast.seconds(0), 2 + 3);
  EXPECT_DOUBLE_EQ(forecast.seconds(10), 5 + 2);
}

TEST(StepForecast, FollowsTheStepsThatWereMade) {
  ModelFacts facts;
  facts.weight_bytes = 4'000'000'000;
  StepForecast forecast(facts);
  forecast.measured(0, 0.5);
  EXPECT_DOUBLE_EQ(forecast.seconds(0), 0.5);
  forecast.measured(0, 0.1);  // a faster one counts less
  EXPECT_DOUBLE_EQ(forecast.seconds(0), 0.475);
  forecast.measured(0, 2);
  EXPECT_DOUBLE_EQ(forecast.seconds(0), 2);
  forecast.measured(3, 2);  // as much as a pass
  forecast.measured(100, 50);
  EXPECT_DOUBLE_EQ(forecast.seconds(10), 2 + 5);
}

}  // namespace
}  // namespace gabbro
