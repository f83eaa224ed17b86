// Requests that wait for their turn: by priority, and among equals in the order in which they came. A request gains one
// priority for every kStepsOfAPriority steps that it waits, so that no later one goes before it after
// kMostOvertakenSteps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/engine/generation_loop.h"
#include "src/engine/request.h"

namespace gabbro {

class Sequence;

inline constexpr int64_t kStepsOfAPriority = 64;
inline constexpr int64_t kMostOvertakenSteps = (kHighestPriority - kLowestPriority + 1) * kStepsOfAPriority;

// A request of the scheduler, and whom its events go to.
struct ScheduledRequest {
  Ticket ticket = 0;
  Request* request = nullptr;
  Sequence* sequence = nullptr;  // that the caller keeps; null: the scheduler has one for it
  std::string tree{};            // of prefixes that it shares, see Sequence::set_tree
  int priority = 0;
  std::function<void()> started{};
  std::function<void(const Error* error)> ended{};
  int64_t since = 0;     // the step in which it came, and later by the steps for which it ran
  bool resumes = false;  // it ran before, and gave its pages to others

  // The priority that it has reached by waiting until this step.
  int64_t level(int64_t step) const { return priority + (step - since) / kStepsOfAPriority; }
};

class WaitingQueue {
 public:
  bool empty() const { return requests_.empty(); }
  size_t size() const { return requests_.size(); }

  void push(ScheduledRequest request) { requests_.push_back(std::move(request)); }
  // The one whose turn it is in this step; null: none waits.
  const ScheduledRequest* first(int64_t step) const;
  ScheduledRequest pop(int64_t step);
  // Takes out those for which `wanted` is true, in their order.
  std::vector<ScheduledRequest> extract(const std::function<bool(const ScheduledRequest&)>& wanted);

 private:
  std::vector<ScheduledRequest> requests_;
};

}  // namespace gabbro
