#include "src/engine/sharded/rank_watch.h"

#include <algorithm>
#include <utility>

namespace gabbro::sharded {

RankWatch::RankWatch(std::vector<Rank> ranks, std::chrono::milliseconds patience)
    : ranks_(std::move(ranks)), patience_(patience), states_(ranks_.size()) {}

void RankWatch::begin(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  begin_ = now;
  states_.assign(ranks_.size(), {.kind = State::Kind::kComputes, .since = now});
}

void RankWatch::waits_for_others(size_t rank, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  states_[rank] = {.kind = State::Kind::kWaitsForOthers, .since = now};
}

void RankWatch::waits_for_device(size_t rank, size_t device, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  states_[rank] = {.kind = State::Kind::kWaitsForDevice, .device = device, .since = now};
}

std::optional<std::string> RankWatch::stuck(Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  std::optional<Clock::time_point> first;  // that waits for the others
  for (const State& state : states_) {
    if (state.kind == State::Kind::kWaitsForOthers && (!first || state.since < *first)) first = state.since;
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const State& state = states_[rank];
    const bool waits = state.kind == State::Kind::kWaitsForDevice;
    const Rank& device = ranks_[waits ? state.device : rank];
    if (!device.is_watched) continue;
    if (waits && now - state.since > patience_) return device.name;
    if (state.kind != State::Kind::kComputes || !first) continue;
    if (now - *first > std::max<Clock::duration>(patience_, kTimes * (*first - begin_))) return device.name;
  }
  return std::nullopt;
}

}  // namespace gabbro::sharded
