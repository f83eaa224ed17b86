#include "backends/gpu/sim/ordering.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "backends/gpu/sim/memory.h"

namespace gabbro::gpu::sim {
namespace {

void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

std::string actor_name(Ordering::Actor actor) {
  return actor == Ordering::kHost ? "by the host" : fmt::format("on stream {}", actor);
}

uintptr_t address_of(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

}  // namespace

Ordering& Ordering::shared() {
  static Ordering& ordering = *new Ordering;  // never destroyed, as the scheduler
  return ordering;
}

Ordering::Actor Ordering::add_stream() {
  const std::lock_guard lock(mutex_);
  const auto free = std::ranges::find(used_, false);
  const auto actor = static_cast<Actor>(free - used_.begin());
  if (free == used_.end()) {
    used_.push_back(true);
    clocks_.emplace_back();
  }
  used_[actor] = true;
  Clock& clock = clocks_[actor];
  join(clock, clocks_[kHost]);
  if (clock.size() <= actor) clock.resize(actor + 1);
  return actor;
}

void Ordering::remove_stream(Actor stream) {
  const std::lock_guard lock(mutex_);
  join(clocks_[kHost], clocks_[stream]);  // so that the next stream of this number is ordered after this one
  used_[stream] = false;
}

// The host's work so far is before what is enqueued now.
void Ordering::tick(Actor stream) {
  join(clocks_[stream], clocks_[kHost]);
  ++clocks_[stream][stream];
}

std::string Ordering::enqueue(Actor stream, const std::string& name, std::span<const api::Access> accesses) {
  const std::lock_guard lock(mutex_);
  tick(stream);
  const Stamp now = {stream, clocks_[stream][stream], &*names_.insert(name).first};
  for (const api::Access& access : accesses) {
    if (std::string error = conflict(now, access, clocks_[stream]); !error.empty()) return error;
  }
  for (const api::Access& access : accesses) note(now, access);
  return {};
}

Clock Ordering::time_of(Actor stream) {
  const std::lock_guard lock(mutex_);
  join(clocks_[stream], clocks_[kHost]);
  return clocks_[stream];
}

uint64_t Ordering::last_time(Actor stream) {
  const std::lock_guard lock(mutex_);
  return clocks_[stream][stream];
}

void Ordering::wait(Actor stream, const Clock& event) {
  const std::lock_guard lock(mutex_);
  join(clocks_[stream], event);
}

void Ordering::host_waits(const Clock& event) { wait(kHost, event); }

void Ordering::allocated(const void* memory, size_t bytes) {
  const std::lock_guard lock(mutex_);
  erase(address_of(memory), address_of(memory) + bytes);
}

std::string Ordering::freed(Actor by, const void* memory, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (by != kHost) tick(by);
  const Stamp now = {by, clocks_[by][by], &*names_.insert("free").first};
  const api::Access access = {memory, bytes, true};
  std::string error = conflict(now, access, clocks_[by]);
  note(now, access);
  split(address_of(memory))->second.freed = true;
  return error;
}

std::string Ordering::describe(const Stamp& now, const char* does, const Stamp& earlier, const char* did,
                               uintptr_t begin, uintptr_t end) const {
  return fmt::format("sim: {} {} {} {}, which {} {} {}: no event orders the two", *now.name, actor_name(now.actor),
                     does, describe_range(begin, end), *earlier.name, actor_name(earlier.actor), did);
}

// Looks for an earlier access that is not ordered before this one.
std::string Ordering::conflict(const Stamp& now, const api::Access& access, const Clock& clock) const {
  const uintptr_t begin = address_of(access.memory), end = begin + access.bytes;
  if (begin == end) return {};
  const char* const does = access.writes ? "writes" : "reads";
  auto segment = segments_.upper_bound(begin);
  if (segment != segments_.begin()) --segment;
  for (; segment != segments_.end() && segment->first < end; ++segment) {
    const auto& [first, s] = *segment;
    if (s.end <= begin) continue;
    const uintptr_t from = std::max(first, begin), to = std::min(s.end, end);
    if (s.freed) {
      return fmt::format("sim: {} {} {} {}, which was freed {} before", *now.name, actor_name(now.actor), does,
                         describe_range(from, to), actor_name(s.write->actor));
    }
    for (const Stamp& read : s.reads) {  // which came after the write
      if (access.writes && !is_before(read, clock)) return describe(now, does, read, "reads", from, to);
    }
    if (s.write && !is_before(*s.write, clock)) return describe(now, does, *s.write, "writes", from, to);
  }
  return {};
}

// The segment that begins at `at`, or the next one.
Ordering::Segments::iterator Ordering::split(uintptr_t at) {
  const auto next = segments_.lower_bound(at);
  if (next == segments_.begin() || (next != segments_.end() && next->first == at)) return next;
  Segment& before = std::prev(next)->second;
  if (before.end <= at) return next;
  Segment rest = before;
  before.end = at;
  return segments_.emplace_hint(next, at, std::move(rest));
}

void Ordering::erase(uintptr_t begin, uintptr_t end) {
  const auto first = split(begin);
  segments_.erase(first, split(end));
}

void Ordering::note(const Stamp& now, const api::Access& access) {
  const uintptr_t begin = address_of(access.memory), end = begin + access.bytes;
  if (begin == end) return;
  if (access.writes) {
    erase(begin, end);
    segments_[begin] = {.end = end, .write = now, .reads = {}};
    return;
  }
  auto segment = split(begin);
  split(end);
  for (uintptr_t at = begin; at < end; ++segment) {
    if (segment == segments_.end() || segment->first > at) {  // nothing was known of these bytes
      const uintptr_t to = segment == segments_.end() ? end : std::min(end, segment->first);
      segment = segments_.emplace_hint(segment, at, Segment{.end = to, .write = std::nullopt, .reads = {}});
    }
    std::vector<Stamp>& reads = segment->second.reads;
    std::erase_if(reads, [&](const Stamp& read) { return read.actor == now.actor; });
    reads.push_back(now);
    at = segment->second.end;
  }
}

}  // namespace gabbro::gpu::sim
