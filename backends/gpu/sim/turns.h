// Lets one of several host threads run at a time, each for a number of steps that a seed chooses.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <vector>

#include "kernels/gpu/types.h"

namespace gabbro::gpu::sim {

class Turns {
 public:
  Turns(u64 seed, size_t threads) : random_(seed) {
    for (size_t i = 0; i < threads; ++i) active_.push_back(i);
    choose();
  }

  // Waits for the first turn of thread `me`.
  void begin(size_t me) {
    std::unique_lock lock(mutex_);
    wait(lock, me);
  }
  // After a step of `me`, whose turn it is; returns when it is so again.
  void step(size_t me) {
    if (--quantum_ > 0) return;
    std::unique_lock lock(mutex_);
    choose();
    if (current_ == me) return;
    changed_.notify_all();
    wait(lock, me);
  }
  void end(size_t me) {
    const std::lock_guard lock(mutex_);
    std::erase(active_, me);
    if (active_.empty()) return;
    choose();
    changed_.notify_all();
  }

 private:
  void choose() {
    current_ = active_[random_() % active_.size()];
    quantum_ = 1 + static_cast<int>(random_() % kLongestTurn);
  }
  void wait(std::unique_lock<std::mutex>& lock, size_t me) {
    changed_.wait(lock, [&] { return current_ == me; });
  }

  static constexpr u64 kLongestTurn = 500;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::vector<size_t> active_;
  size_t current_ = 0;
  int quantum_ = 0;
};

}  // namespace gabbro::gpu::sim
