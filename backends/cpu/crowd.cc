#include "backends/cpu/crowd.h"

#include <algorithm>

namespace gabbro::cpu {
namespace {

// A shorter wait is a sleeping worker's wake-up, or a piece that is longer than the others.
constexpr auto kLongWait = std::chrono::microseconds(500);
// The team is tried again after these times: a trial costs a time slice of another program, 3 to 30 ms.
constexpr auto kFirstPause = std::chrono::milliseconds(50);
constexpr auto kLongestPause = std::chrono::milliseconds(1000);

}  // namespace

void Crowd::ran(int workers, Clock::duration whole, Clock::duration waited, Clock::time_point now) {
  const bool late = waited > kLongWait && waited > (whole - waited) * workers;
  if (!late) {
    pause_ /= 4;
    return;
  }
  pause_ = std::clamp<Clock::duration>(4 * pause_, kFirstPause, kLongestPause);
  until_.store((now + pause_).time_since_epoch().count(), std::memory_order_relaxed);
}

}  // namespace gabbro::cpu
