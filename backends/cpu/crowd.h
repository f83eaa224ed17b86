// Whether other programs keep the cores busy. Launches of the team tell: where the caller waits in barriers for longer
// than it would have needed for all of the work, another worker had no core. For a while launches then run alone.
#pragma once

#include <atomic>
#include <chrono>

namespace gabbro::cpu {

class Crowd {
 public:
  using Clock = std::chrono::steady_clock;

  // A launch of `workers` took `whole`; its caller spent `waited` of this time in barriers.
  void ran(int workers, Clock::duration whole, Clock::duration waited, Clock::time_point now = Clock::now());
  bool is_crowded(Clock::time_point now = Clock::now()) const {
    return now.time_since_epoch().count() < until_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<Clock::rep> until_{0};
  Clock::duration pause_{};  // until the team is tried again; guarded by the pool's turn
};

}  // namespace gabbro::cpu
