// Notices a device of a tensor split that does not come back: the host waits for it, or the others have computed their
// part long ago. A pure record of times, which the threads of the ranks write and the thread of the pass reads.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace gabbro::sharded {

class RankWatch {
 public:
  using Clock = std::chrono::steady_clock;
  // The host waits for a device at most this long; a device is behind the first one at most this long, or this many
  // times what the first one has needed.
  static constexpr std::chrono::milliseconds kPatience{4000};
  static constexpr int kTimes = 20;

  struct Rank {
    std::string name;        // of its device
    bool is_watched = true;  // false: a CPU, which computes while the host waits
  };
  explicit RankWatch(std::vector<Rank> ranks, std::chrono::milliseconds patience = kPatience);

  // A pass begins, or all ranks have got a sum.
  void begin(Clock::time_point now = Clock::now());
  void waits_for_others(size_t rank, Clock::time_point now = Clock::now());  // also when it has done its part
  // The thread of a rank waits for a device, mostly its own one.
  void waits_for_device(size_t rank, size_t device, Clock::time_point now = Clock::now());

  // The name of the device that is stuck.
  std::optional<std::string> stuck(Clock::time_point now = Clock::now()) const;

 private:
  struct State {
    enum class Kind { kComputes, kWaitsForOthers, kWaitsForDevice } kind = Kind::kComputes;
    size_t device = 0;
    Clock::time_point since{};
  };

  const std::vector<Rank> ranks_;
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;
  std::vector<State> states_;
  Clock::time_point begin_{};
};

}  // namespace gabbro::sharded
