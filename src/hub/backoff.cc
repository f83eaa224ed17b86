#include "src/hub/backoff.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace gabbro::hub {

void Backoff::wait(const HttpError& error, const std::atomic<bool>& stop) {
  using Clock = std::chrono::steady_clock;
  constexpr double kFirst = 0.5, kLongest = 30, kLongestAsked = 300;
  if (!error.transient() || attempt_ >= retries_) throw error;
  const double asked = error.retry_after().value_or(0);
  if (asked > kLongestAsked) throw error;
  const double own = std::min(kLongest, kFirst * static_cast<double>(1u << std::min(attempt_, 16)));
  ++attempt_;
  const auto end = Clock::now() + std::chrono::duration<double>(std::max(asked, own));
  while (Clock::now() < end) {
    if (stop) throw Error(ErrorCode::kInterrupted, "interrupted");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace gabbro::hub
