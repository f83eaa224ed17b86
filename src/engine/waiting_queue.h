// Requests that wait for their turn: first requests of the owner who had the fewest tokens; an owner's requests by
// priority, among equals in the order in which they came. A request gains one priority for every kStepsOfAPriority
// steps that it waits, so that no later one of its owner goes before it after kMostOvertakenSteps.
#pragma once

#include <functional>
#include <map>
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
  std::string owner{};           // see FairShares
  std::string tree{};            // of prefixes that it shares, see Sequence::set_tree
  int priority = 0;
  std::function<void()> started{};
  std::function<void(const Error* error)> ended{};
  int64_t since = 0;     // the step in which it came, and later by the steps for which it ran
  bool resumes = false;  // it ran before, and gave its pages to others
  bool paused = false;   // it does not begin before it is resumed
  int preemptions = 0;

  // The priority that it has reached by waiting until this step.
  int64_t level(int64_t step) const { return priority + (step - since) / kStepsOfAPriority; }
};

// Tokens that each owner had, of those who have requests. One who comes later begins with as many as the one who had
// the fewest (Sheng et al. 2024, "Fairness in Serving Large Language Models"): nothing is saved up while idle.
class FairShares {
 public:
  void came(const std::string& owner);   // a request of this owner is added
  void ended(const std::string& owner);  // one is over
  void had(const std::string& owner, int64_t tokens);
  int64_t tokens(const std::string& owner) const;
  size_t owners() const { return owners_.size(); }

 private:
  struct Owner {
    int64_t tokens = 0, requests = 0;
  };
  std::map<std::string, Owner> owners_;
};

class WaitingQueue {
 public:
  explicit WaitingQueue(const FairShares& shares) : shares_(shares) {}
  bool empty() const { return requests_.empty(); }
  size_t size() const { return requests_.size(); }

  void push(ScheduledRequest request) { requests_.push_back(std::move(request)); }
  // The one whose turn it is in this step; null: none waits, or all that wait are paused.
  const ScheduledRequest* first(int64_t step) const;
  ScheduledRequest pop(int64_t step);  // first()
  ScheduledRequest* find(Ticket ticket);
  // Takes out those for which `wanted` is true, in their order.
  std::vector<ScheduledRequest> extract(const std::function<bool(const ScheduledRequest&)>& wanted);

 private:
  const FairShares& shares_;
  std::vector<ScheduledRequest> requests_;
};

}  // namespace gabbro
