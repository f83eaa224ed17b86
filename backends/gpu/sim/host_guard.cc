#include "backends/gpu/sim/host_guard.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "backends/gpu/sim/fault_handler.h"
#include "backends/gpu/sim/memory.h"
#include "src/base/round_up.h"

namespace gabbro::gpu::sim {

HostGuard& HostGuard::shared() {
  static HostGuard& guard = *new HostGuard;  // never destroyed, as the scheduler
  return guard;
}

void HostGuard::copy_enqueued(Ordering::Actor stream, const char* name, const void* memory, size_t bytes, bool reads,
                              std::function<void(const std::string&)> report) {
  const auto [begin, end] = own_pages(memory, bytes);
  if (begin >= end) return;
  catch_faults();
  const std::lock_guard lock(mutex_);
  guards_.push_back({begin, end, reads, stream, Ordering::shared().last_time(stream), name, std::move(report)});
  protect_again(begin, end);
}

// Applies the guards that are left; the strictest one counts.
void HostGuard::protect_again(uintptr_t begin, uintptr_t end) {
  set_protection(begin, end, PROT_READ | PROT_WRITE);
  for (const int protection : {PROT_READ, PROT_NONE}) {
    for (const Guard& guard : guards_) {
      const uintptr_t from = std::max(begin, guard.begin), to = std::min(end, guard.end);
      if (from < to && (protection == PROT_READ) == guard.reads) set_protection(from, to, protection);
    }
  }
}

template <class Over>
void HostGuard::end_if(const Over& is_over) {
  std::vector<Guard> ended;
  for (const Guard& guard : guards_) {
    if (is_over(guard)) ended.push_back(guard);
  }
  std::erase_if(guards_, is_over);
  for (const Guard& guard : ended) protect_again(guard.begin, guard.end);
}

void HostGuard::host_has_waited() {
  const std::lock_guard lock(mutex_);
  if (guards_.empty()) return;
  const Clock host = Ordering::shared().time_of(Ordering::kHost);
  end_if([&](const Guard& guard) { return guard.stream < host.size() && guard.time <= host[guard.stream]; });
}

void HostGuard::forget(const void* memory, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory), end = begin + bytes;
  const std::lock_guard lock(mutex_);
  end_if([&](const Guard& guard) { return guard.begin < end && begin < guard.end; });
}

// A guard's pages may hold more than this memory.
void HostGuard::access(const void* memory, size_t bytes, const std::function<void()>& body) {
  const auto first = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = first / kPage * kPage, end = round_up(first + bytes, kPage);
  const std::lock_guard lock(mutex_);
  const auto each_guarded = [&](const auto& visit) {
    for (const Guard& guard : guards_) {
      const uintptr_t from = std::max(begin, guard.begin), to = std::min(end, guard.end);
      if (from < to) visit(from, to);
    }
  };
  each_guarded([](uintptr_t from, uintptr_t to) { set_protection(from, to, PROT_READ | PROT_WRITE); });
  body();
  each_guarded([&](uintptr_t from, uintptr_t to) { protect_again(from, to); });
}

bool HostGuard::take_fault(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(guards_, [&](const Guard& guard) { return guard.begin <= at && at < guard.end; });
  if (found == guards_.end()) return false;
  found->report(fmt::format("sim: the host {} {}, which {} on stream {} {}: it has not waited for that",
                            found->reads ? "writes" : "reads or writes", describe_range(at, at + 1), found->name,
                            found->stream, found->reads ? "reads" : "writes"));
  end_if([&](const Guard& guard) { return guard.begin <= at && at < guard.end; });
  return true;
}

bool take_host_fault(const void* address) { return HostGuard::shared().take_fault(address); }

}  // namespace gabbro::gpu::sim
