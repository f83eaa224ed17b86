// Many requests on one engine. They join and leave between steps; a step takes the next tokens of all that run: single
// tokens of those that generate, with drafted ones after them, and chunks of prompts.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "src/engine/generation_loop.h"
#include "src/engine/kept_sequences.h"
#include "src/engine/running_request.h"
#include "src/engine/step_forecast.h"
#include "src/engine/tree_runner.h"
#include "src/engine/waiting_queue.h"

namespace gabbro {

struct SchedulerOptions {
  size_t most_waiting = 0;             // requests; 0: any number
  int64_t step_tokens = 0;             // of prompts, in a step; 0: as many as the device computes well
  bool deterministic = false;          // the tokens of a request are those that it gets alone, to the bit
  std::shared_ptr<Drafter> drafter{};  // null: one token of a request in a step
  PageStoreOptions store{};            // pages of texts on disk; without a folder: none
};

class Scheduler final : public GenerationLoop {
 public:
  explicit Scheduler(std::shared_ptr<Engine> engine, SchedulerOptions options = {});
  ~Scheduler() override;

  Ticket add(GenerationRequest request, std::shared_ptr<Channel> channel) override;
  void cancel(Ticket ticket) override;
  void pause(Ticket ticket, bool paused) override;
  bool step(const std::atomic<bool>* cancel = nullptr) override;

  // A request that the caller keeps, on a sequence that the caller keeps (null: the scheduler's). `ended` is called
  // once, with the error of a request that failed.
  Ticket add(Request& request, Sequence* sequence, std::function<void(const Error* error)> ended);
  // After a step that threw: the requests that run end with this error.
  void fail_running(const Error& error);

  // Seconds that the next step takes at most, but for hangs.
  double step_forecast() const;

  size_t waiting() const { return waiting_.size(); }
  size_t running() const { return running_.size(); }

 private:
  using Running = std::list<RunningRequest>;
  static constexpr int kMostPreemptions = 2;  // of one request

  Ticket push(ScheduledRequest scheduled, int priority);
  void admit();
  bool make_way(const std::string& owner, int priority);
  bool reserve_pages(const ScheduledRequest& next);
  static void end_without_room(Request& request, const OutOfMemory& why, const std::function<void(const Error&)>& fail);
  void start(ScheduledRequest scheduled);

  static bool waits_for(const RunningRequest& later, const RunningRequest& earlier);
  std::vector<RunningRequest*> chosen();
  void plan_prompts(std::span<RunningRequest* const> all);
  bool plan_exact_prompt(std::span<RunningRequest* const> all);
  void plan_next_tokens(std::span<RunningRequest* const> all, const std::atomic<bool>* cancel);
  bool step_tree(RunningRequest& one, const std::atomic<bool>* cancel);
  void compute(const std::atomic<bool>* cancel);
  void pass_rows(std::span<RunningRequest* const> all, std::span<const float> logits, std::span<const int32_t> largest);
  int64_t room_of_drafts(const RunningRequest& one) const;
  DraftBudget& budget_of(RunningRequest& one) const;

  RunningRequest* last_of_lowest_priority(const std::function<bool(const RunningRequest&)>& may_be);
  RunningRequest* beyond_share(const std::string& owner);
  void pause_wanted();
  void note_step(std::span<RunningRequest* const> taking, int64_t prompt_tokens, double seconds);
  void preempt(RunningRequest& victim);
  void free_pages(const CacheFull& full);
  void isolate(const Error& error);  // within a handler of it
  void end_canceled(bool all);
  void retire();

  const SchedulerOptions options_;
  Runner runner_;
  TreeRunner trees_{runner_};
  StepForecast forecast_;
  const bool drafts_;
  FairShares shares_;
  Ticket tickets_ = 0;
  int64_t steps_ = 0;
  WaitingQueue waiting_{shares_};
  Running running_;  // in the order in which they began
  KeptSequences kept_;
  // Requests that a step which failed computed together: each is computed alone, so that only those at fault end.
  std::set<Ticket> suspects_;
  std::string last_failure_;  // of a request that was computed alone; empty: a step was made since
  // Requests, and tokens of prompts, in a step: fewer after a step for which the device had too little memory.
  const size_t most_allowed_;
  size_t most_together_;
  int64_t most_tokens_;
  int64_t short_since_ = 0;  // the step that had too little memory last
  bool closed_ = false;      // the cache is full: no request begins until one has ended
  std::mutex mutex_;
  std::set<Ticket> to_cancel_;
  std::map<Ticket, bool> to_pause_;
  std::atomic<bool> has_pauses_ = false;
  std::atomic<bool> interrupt_ = false;  // there is something to cancel
};

}  // namespace gabbro
