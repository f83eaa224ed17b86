// The choice among candidates under clocks that change while they are timed.
#include "backends/gpu/tuning/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace gabbro::gpu {
namespace {

// A device whose candidates take `cycles` a launch. Its clock, in cycles per second, depends on the seconds of work so
// far.
class Device {
 public:
  Device(std::vector<double> cycles, std::function<double(double)> clock)
      : cycles_(std::move(cycles)), clock_(std::move(clock)) {}

  Timing time(size_t i, double guess) {
    const int launches = static_cast<int>(std::clamp(5e-3 / guess, 1.0, 64.0));
    const double start = now_;
    for (int k = 0; k < launches; ++k) {
      now_ += cycles_[i] / clock_(now_);
      ++launches_[i];
    }
    return {.launch = (now_ - start) / launches, .total = now_ - start};
  }
  CandidateTimes choose(std::span<const double> guesses) {
    return time_candidates(guesses, [this](size_t i, double guess) { return time(i, guess); });
  }
  CandidateTimes choose() { return choose(std::vector<double>(cycles_.size(), 1e-3)); }

  double now_ = 0;
  std::vector<int> launches_ = std::vector<int>(16);

 private:
  std::vector<double> cycles_;
  std::function<double(double)> clock_;
};

double ramp(double seconds) { return std::min(1.0, 0.25 + seconds / 0.04); }  // full after 30 ms of work

TEST(Rounds, SteadyClock) {
  Device device({3e-4, 2e-4, 2.5e-4}, [](double) { return 1.0; });
  const CandidateTimes times = device.choose();
  EXPECT_EQ(times.chosen, 1U);
  EXPECT_EQ(times.rounds, 2);
  EXPECT_NEAR(times.ratios[0], 1.5, 1e-9);
  EXPECT_NEAR(times.ratios[2], 1.25, 1e-9);
  EXPECT_NEAR(times.fastest, 2e-4, 1e-9);
}

// Without work ahead of the first round, the first candidate is timed at a quarter of the clock.
TEST(Rounds, AClockThatRises) {
  for (const auto& cycles : {std::vector{1.0e-4, 1.2e-4, 1.4e-4}, std::vector{1.4e-4, 1.2e-4, 1.0e-4}}) {
    Device device(cycles, ramp);
    const CandidateTimes times = device.choose();
    EXPECT_EQ(times.chosen, static_cast<size_t>(std::ranges::min_element(cycles) - cycles.begin()));
    for (size_t i = 0; i < cycles.size(); ++i) EXPECT_NEAR(times.ratios[i], cycles[i] / 1e-4, 0.01);
  }
}

// The clock falls by 40 % while they are timed: whatever is timed last looks slow.
TEST(Rounds, AClockThatFallsSteadily) {
  for (const size_t fastest : {0U, 1U, 2U, 3U}) {
    std::vector<double> cycles(4, 1.1e-4);
    cycles[fastest] = 1e-4;
    Device device(cycles, [](double seconds) { return std::max(0.6, 1.2 - 2 * seconds); });
    EXPECT_EQ(device.choose().chosen, fastest);
  }
}

TEST(Rounds, RepetitionsChooseAlikeUnderDrift) {
  std::mt19937 random(7);
  for (int machine = 0; machine < 200; ++machine) {
    std::vector<double> cycles;
    for (int i = 0; i < 4; ++i) cycles.push_back(1e-4 * std::uniform_real_distribution(1.0, 3.0)(random));
    const size_t best = static_cast<size_t>(std::ranges::min_element(cycles) - cycles.begin());
    for (size_t i = 0; i < cycles.size(); ++i) {
      if (i != best) cycles[i] = std::max(cycles[i], 1.1 * cycles[best]);  // else either is as good
    }
    for (int repetition = 0; repetition < 3; ++repetition) {
      const double period = std::uniform_real_distribution(0.1, 0.5)(random),
                   phase = std::uniform_real_distribution(0.0, 6.0)(random);
      Device device(cycles, [&](double seconds) {
        return ramp(seconds) * (1 + 0.12 * std::sin(phase + 6.28 * seconds / period));
      });
      EXPECT_EQ(device.choose().chosen, best) << machine << ", " << repetition;
    }
  }
}

TEST(Rounds, OfCandidatesThatAreAsFastTheFirst) {
  Device device({1.01e-4, 1.0e-4, 1.005e-4}, [](double) { return 1.0; });
  EXPECT_EQ(device.choose().chosen, 0U);
}

TEST(Rounds, EndWithoutAgreement) {
  double noise = 1;
  const CandidateTimes times = time_candidates(std::vector{1.0, 1.0}, [&](size_t i, double) {
    if (i == 1) noise *= 1.2;
    return Timing{.launch = i == 1 ? noise : 1.0, .total = 1};
  });
  EXPECT_EQ(times.rounds, 6);
}

TEST(Rounds, HopelessAndUnfitCandidatesAreCheap) {
  Device device({1e-4, 1e-2, 1e-4}, [](double) { return 1.0; });
  const CandidateTimes times = device.choose(std::vector{1e-4, 1e-2, 0.0});
  EXPECT_EQ(times.chosen, 0U);
  EXPECT_EQ(device.launches_[1], 2);
  EXPECT_EQ(device.launches_[2], 0);
  EXPECT_EQ(times.ratios[2], 0);
  EXPECT_NEAR(times.ratios[1], 100, 1);
}

}  // namespace
}  // namespace gabbro::gpu
