// The choice of the waiting request that begins, and of the running one that gives its place or its pages to it.
#include <algorithm>
#include <map>
#include <utility>

#include "src/base/error.h"
#include "src/engine/scheduler.h"

namespace gabbro {

// A request of an owner who has more places than others, for an owner who has none; null: there is none.
RunningRequest* Scheduler::beyond_share(const std::string& owner) {
  std::map<std::string, size_t> places;
  for (const RunningRequest& one : running_) ++places[one.owner()];
  if (places.contains(owner)) return nullptr;
  const size_t share = std::max<size_t>(most_allowed_ / shares_.owners(), 1);
  return last_of_lowest_priority(
      [&](const RunningRequest& one) { return places[one.owner()] > share && one.preemptions() < kMostPreemptions; });
}

// Its pages keep their names, so that it goes on from them if they are still there when its turn comes.
void Scheduler::preempt(RunningRequest& victim) {
  waiting_.push(victim.give_up(steps_));
  running_.remove_if([&](const RunningRequest& one) { return &one == &victim; });
}

// Makes a place for a request if all are taken: preempts a paused one, one with a lower priority of the same owner, or
// one of an owner with more than an equal number of places.
bool Scheduler::make_way(const std::string& owner, int priority) {
  if (running_.size() < static_cast<size_t>(runner_.engine()->facts().sequences)) return true;
  RunningRequest* victim = last_of_lowest_priority([](const RunningRequest& one) { return one.is_paused(); });
  if (victim == nullptr) {
    victim = last_of_lowest_priority([&](const RunningRequest& one) {
      return one.owner() == owner && one.level() < priority && one.preemptions() < kMostPreemptions;
    });
  }
  if (victim == nullptr) victim = beyond_share(owner);
  if (victim == nullptr) return false;
  preempt(*victim);
  return true;
}

// Reserves pages for the forecast texts of the request and of all that run. A request alone needs them for its text
// now. Throws OutOfMemory if it has no room alone.
bool Scheduler::reserve_pages(const ScheduledRequest& next) {
  std::vector<Runner::Growth> growing;
  for (const RunningRequest& one : running_) growing.push_back({&one.sequence(), one.request().forecast_length()});
  int64_t tokens = growing.empty() ? std::ssize(next.request->text()) : next.request->forecast_length();
  if (next.sequence != nullptr) growing.push_back({next.sequence, std::exchange(tokens, 0)});
  while (true) {
    try {
      runner_.reserve_pages(tokens, growing);
      return true;
    } catch (const OutOfMemory&) {
      if (kept_.drop_oldest()) continue;
      if (running_.empty()) throw;
      return false;
    }
  }
}

// Also alone there are too few pages. An answer that has begun ends as at the end of the context.
void Scheduler::end_without_room(Request& request, const OutOfMemory& why,
                                 const std::function<void(const Error&)>& fail) {
  if (request.text().size() > request.prompt().size()) return request.fill_context();
  fail(bad_input("the request does not fit, also alone: {}", why.what()));
}

void Scheduler::admit() {
  while (const ScheduledRequest* const next = waiting_.first(steps_)) {
    // A copy: preempt() adds to the queue.
    if (!running_.empty() && (closed_ || !make_way(std::string(next->owner), next->priority))) return;
    // Kept sequences stay until a step needs their pages, if no request runs and no pages come from disk. A caller's
    // sequence may share pages with others of the caller, which reserve_pages() does not know.
    const ScheduledRequest& first = *waiting_.first(steps_);
    const bool needs_room =
        !running_.empty() || !options_.store.folder.empty() || (kept_.empty() && first.sequence == nullptr);
    try {
      if (needs_room && !reserve_pages(first)) {
        RunningRequest* const paused =
            last_of_lowest_priority([](const RunningRequest& one) { return one.is_paused(); });
        closed_ = paused == nullptr;  // until one has ended, there are no more pages
        if (closed_) return;
        preempt(*paused);
        continue;
      }
    } catch (const OutOfMemory& full) {
      const ScheduledRequest refused = waiting_.pop(steps_);
      shares_.ended(refused.owner);
      std::optional<Error> error;
      end_without_room(*refused.request, full, [&](const Error& why) { error = why; });
      refused.ended(error ? &*error : nullptr);
      continue;
    }
    start(waiting_.pop(steps_));
  }
}

void Scheduler::start(ScheduledRequest scheduled) {
  const bool uses_kept =
      !options_.deterministic && scheduled.sequence == nullptr && !scheduled.request->scores_prompt();
  std::unique_ptr<Sequence> kept = uses_kept ? kept_.take(scheduled.request->text(), scheduled.tree) : nullptr;
  const bool begins = !scheduled.resumes;
  const auto started = scheduled.started;
  running_.emplace_back(std::move(scheduled), runner_.engine(), std::move(kept), steps_);
  RunningRequest& one = running_.back();
  if (options_.deterministic) one.sequence().name_up_to(std::ssize(one.request().prompt()));
  if (begins) started();
}

}  // namespace gabbro
