#include "backends/gpu/sim/scheduler.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gabbro::gpu::sim {

Scheduler& Scheduler::shared() {
  // Never destroyed: a device that lives as long as the program ends its streams last of all.
  static Scheduler& scheduler = *new Scheduler(0);
  return scheduler;
}

void Scheduler::set_seed(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::any_of(streams_, [](const auto& work) { return !work.empty(); })) return;
  random_.seed(seed);
  deferred_ = seed != 0;
}

bool Scheduler::is_deferred() {
  const std::lock_guard lock(mutex_);
  return deferred_;
}

Scheduler::Stream Scheduler::add_stream() {
  const std::lock_guard lock(mutex_);
  return streams_.emplace(streams_.end());
}

void Scheduler::remove_stream(Stream stream) {
  finish(stream);
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

// One piece of work that may be done, of any stream. False: none.
bool Scheduler::step() {
  std::vector<std::deque<Work>*> ready;
  for (std::deque<Work>& work : streams_) {
    if (!work.empty() && (work.front().after == nullptr || work.front().after->reached)) ready.push_back(&work);
  }
  if (ready.empty()) return false;
  std::deque<Work>& chosen = *ready[random_() % ready.size()];
  const Work work = std::move(chosen.front());
  chosen.pop_front();
  if (work.run) work.run();
  return true;
}

void Scheduler::push(Stream stream, Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (deferred_) {
      stream->push_back(std::move(work));
      while (random_() % 3 == 0 && step()) {
      }
      return;
    }
  }
  if (work.run) work.run();  // nothing is ahead of it: all markers are reached
}

void Scheduler::enqueue(Stream stream, std::function<void()> work) { push(stream, {std::move(work), nullptr}); }

std::shared_ptr<Scheduler::Marker> Scheduler::mark(Stream stream) {
  auto marker = std::make_shared<Marker>();
  push(stream, {[marker] { marker->reached = true; }, nullptr});
  return marker;
}

void Scheduler::wait(Stream stream, std::shared_ptr<Marker> marker) { push(stream, {nullptr, std::move(marker)}); }

// The oldest work that is left can always be done: a marker is enqueued before what waits for it.
void Scheduler::finish(Stream stream) {
  const std::lock_guard lock(mutex_);
  while (!stream->empty() && step()) {
  }
}

void Scheduler::finish(const Marker& marker) {
  const std::lock_guard lock(mutex_);
  while (!marker.reached && step()) {
  }
}

void Scheduler::finish_all() {
  const std::lock_guard lock(mutex_);
  while (step()) {
  }
}

}  // namespace gabbro::gpu::sim
