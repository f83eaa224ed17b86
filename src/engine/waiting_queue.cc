#include "src/engine/waiting_queue.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace gabbro {

void FairShares::came(const std::string& owner) {
  if (const auto known = owners_.find(owner); known != owners_.end()) {
    ++known->second.requests;
    return;
  }
  const auto fewest =
      std::ranges::min_element(owners_, {}, [](const auto& one) -> int64_t { return one.second.tokens; });
  owners_[owner] = {.tokens = fewest != owners_.end() ? fewest->second.tokens : 0, .requests = 1};
}

void FairShares::ended(const std::string& owner) {
  const auto known = owners_.find(owner);
  if (known != owners_.end() && --known->second.requests == 0) owners_.erase(known);
}

void FairShares::had(const std::string& owner, int64_t tokens) {
  if (const auto known = owners_.find(owner); known != owners_.end()) known->second.tokens += tokens;
}

int64_t FairShares::tokens(const std::string& owner) const {
  const auto known = owners_.find(owner);
  return known != owners_.end() ? known->second.tokens : 0;
}

const ScheduledRequest* WaitingQueue::first(int64_t step) const {
  // Larger for the one that goes first.
  const auto rank = [&](const ScheduledRequest& request) {
    return std::tuple(-shares_.tokens(request.owner), request.level(step), -static_cast<int64_t>(request.ticket));
  };
  const ScheduledRequest* best = nullptr;
  for (const ScheduledRequest& one : requests_) {
    if (!one.paused && (best == nullptr || rank(*best) < rank(one))) best = &one;
  }
  return best;
}

ScheduledRequest WaitingQueue::pop(int64_t step) {
  const auto at = requests_.begin() + (first(step) - requests_.data());
  ScheduledRequest request = std::move(*at);
  requests_.erase(at);
  return request;
}

ScheduledRequest* WaitingQueue::find(Ticket ticket) {
  const auto found = std::ranges::find(requests_, ticket, &ScheduledRequest::ticket);
  return found != requests_.end() ? &*found : nullptr;
}

std::vector<ScheduledRequest> WaitingQueue::extract(const std::function<bool(const ScheduledRequest&)>& wanted) {
  const auto rest = std::stable_partition(requests_.begin(), requests_.end(),
                                          [&](const ScheduledRequest& request) { return !wanted(request); });
  std::vector<ScheduledRequest> out(std::make_move_iterator(rest), std::make_move_iterator(requests_.end()));
  requests_.erase(rest, requests_.end());
  return out;
}

}  // namespace gabbro
