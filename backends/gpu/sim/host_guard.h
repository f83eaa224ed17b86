// Finds accesses of the host to pinned memory while a copy of it is under way: its pages are protected until the host
// has waited for the copy. Only pages that have nothing else are, so small pieces of a larger allocation may go
// unnoticed.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "backends/gpu/sim/ordering.h"

namespace gabbro::gpu::sim {

class HostGuard {
 public:
  static HostGuard& shared();

  // A copy on the stream reads (or else writes) this memory: the host must not write (or not touch) it before it has
  // waited. `report` gets what it did all the same, in one line.
  void copy_enqueued(Ordering::Actor stream, const char* name, const void* memory, size_t bytes, bool reads,
                     std::function<void(const std::string&)> report);
  void host_has_waited();  // ends what Ordering knows to be over
  void forget(const void* memory, size_t bytes);

  // The simulator's own access to memory that may be protected.
  void access(const void* memory, size_t bytes, const std::function<void()>& body);

  // A fault of the host at this address: whether it was of a protected page, which it is not any more.
  bool take_fault(const void* address);

 private:
  struct Guard {
    uintptr_t begin, end;  // whole pages
    bool reads;
    Ordering::Actor stream;
    uint64_t time;
    const char* name;
    std::function<void(const std::string&)> report;
  };

  template <class Over>
  void end_if(const Over& is_over);
  void protect_again(uintptr_t begin, uintptr_t end);

  std::mutex mutex_;
  std::vector<Guard> guards_;
};

}  // namespace gabbro::gpu::sim
