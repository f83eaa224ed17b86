// The happens-before order of accesses to memory, with a vector clock for each stream (Fidge 1988, Mattern 1989): an
// access that is ordered neither by its stream nor by an event after an earlier one that it conflicts with is a missing
// wait. It is found when the work is enqueued, whatever the order in which the scheduler does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/gpu/api.h"

namespace gabbro::gpu::sim {

// Times by actor: 0 is the host, the others are streams.
using Clock = std::vector<uint64_t>;

class Ordering {
 public:
  using Actor = size_t;
  static constexpr Actor kHost = 0;

  // That of the simulator's devices.
  static Ordering& shared();

  Actor add_stream();
  void remove_stream(Actor stream);  // whose work the host has waited for

  // Work under this name is enqueued. Empty, or which two accesses are not ordered, in one line.
  std::string enqueue(Actor stream, const std::string& name, std::span<const api::Access> accesses);

  Clock time_of(Actor stream);
  uint64_t last_time(Actor stream);  // of what was enqueued last
  void wait(Actor stream, const Clock& event);
  void host_waits(const Clock& event);

  // Memory is handed out: what was done with it before is forgotten.
  void allocated(const void* memory, size_t bytes);
  // Memory is freed on the stream, or by the host. Empty, or which access may come later, as enqueue().
  std::string freed(Actor by, const void* memory, size_t bytes);

 private:
  struct Stamp {
    Actor actor;
    uint64_t time;
    const std::string* name;
  };
  // Bytes that have the same last write and the same reads since.
  struct Segment {
    uintptr_t end;
    std::optional<Stamp> write;
    std::vector<Stamp> reads;  // the last of each stream
    bool freed = false;
  };
  using Segments = std::map<uintptr_t, Segment>;  // by their first byte

  bool is_before(const Stamp& stamp, const Clock& clock) const {
    return stamp.actor < clock.size() && stamp.time <= clock[stamp.actor];
  }
  Segments::iterator split(uintptr_t at);
  void erase(uintptr_t begin, uintptr_t end);
  void tick(Actor stream);
  std::string conflict(const Stamp& now, const api::Access& access, const Clock& clock) const;
  std::string describe(const Stamp& now, const char* does, const Stamp& earlier, const char* did, uintptr_t begin,
                       uintptr_t end) const;
  void note(const Stamp& now, const api::Access& access);

  std::mutex mutex_;
  std::vector<Clock> clocks_ = {{1}};  // by actor
  std::vector<bool> used_ = {true};
  std::set<std::string> names_;
  Segments segments_;
};

}  // namespace gabbro::gpu::sim
