// Waits of the host for a device: they poll, so that they can be canceled, and say what a device was given last that
// does not come to an end.
#pragma once

#include <atomic>
#include <chrono>

#include "backends/gpu/api.h"

namespace gabbro::gpu {

// Gets the lines about long waits, from any thread; null: they are dropped.
void set_reporter(void (*report)(const char* line));

// The pauses of one wait: while (!api::is_done(queue)) waiter.pause();
class Waiter {
 public:
  // `cancel` may be null.
  explicit Waiter(const std::atomic<bool>* cancel);

  // Longer, the longer the wait lasts: none at first, at most 20 ms. Throws ApiError kCanceled.
  void pause();
  // The wait has become so long that it pauses. A lock that others need should not be held any longer.
  bool is_long() const { return elapsed_ >= spin_; }

 private:
  using Clock = std::chrono::steady_clock;
  // A step of decoding, or a copy: the wait ends as soon as the device does. Runtimes spin as well.
  static constexpr std::chrono::milliseconds kSpin{50};

  void report();

  const std::atomic<bool>* const cancel_;
  const Clock::duration spin_;  // kSpin, or 0 with GABBRO_BLOCKING_SYNC=1
  const Clock::time_point start_;
  Clock::duration elapsed_{};
  Clock::duration next_report_;
};

}  // namespace gabbro::gpu
