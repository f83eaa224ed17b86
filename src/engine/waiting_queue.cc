#include "src/engine/waiting_queue.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace gabbro {
namespace {

// Larger for the one that goes first.
std::tuple<int64_t, int64_t> rank(const ScheduledRequest& request, int64_t step) {
  return {request.level(step), -static_cast<int64_t>(request.ticket)};
}

}  // namespace

const ScheduledRequest* WaitingQueue::first(int64_t step) const {
  const auto before = [&](const ScheduledRequest& a, const ScheduledRequest& b) {
    return rank(a, step) < rank(b, step);
  };
  const auto found = std::ranges::max_element(requests_, before);
  return found != requests_.end() ? &*found : nullptr;
}

ScheduledRequest WaitingQueue::pop(int64_t step) {
  const auto at = requests_.begin() + (first(step) - requests_.data());
  ScheduledRequest request = std::move(*at);
  requests_.erase(at);
  return request;
}

std::vector<ScheduledRequest> WaitingQueue::extract(const std::function<bool(const ScheduledRequest&)>& wanted) {
  const auto rest = std::stable_partition(requests_.begin(), requests_.end(),
                                          [&](const ScheduledRequest& request) { return !wanted(request); });
  std::vector<ScheduledRequest> out(std::make_move_iterator(rest), std::make_move_iterator(requests_.end()));
  requests_.erase(rest, requests_.end());
  return out;
}

}  // namespace gabbro
