// A request that takes part in steps: its sequence, and the tokens that its next step appends.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/engine/runner.h"
#include "src/engine/speculation.h"
#include "src/engine/waiting_queue.h"

namespace gabbro {

class RunningRequest {
 public:
  // `kept`: a sequence that holds a beginning of the request's text; null: start an empty one.
  RunningRequest(ScheduledRequest scheduled, const std::shared_ptr<Engine>& engine, std::unique_ptr<Sequence> kept,
                 int64_t step);

  Ticket ticket() const { return scheduled_.ticket; }
  const std::string& owner() const { return scheduled_.owner; }
  int preemptions() const { return scheduled_.preemptions; }
  bool is_paused() const { return scheduled_.paused; }
  void pause(bool paused) { scheduled_.paused = paused; }
  int64_t level() const { return scheduled_.level(began_); }  // its priority when it began
  Request& request() { return *scheduled_.request; }
  const Request& request() const { return *scheduled_.request; }
  Sequence& sequence() { return *sequence_; }
  const Sequence& sequence() const { return *sequence_; }
  const std::optional<Error>& error() const { return error_; }
  void fail(const Error& why);

  // Whether tokens before the last chosen one are not computed yet.
  bool is_behind() const {
    return std::ssize(sequence_->tokens()) + 1 < std::ssize(request().text()) || is_in_prompt();
  }
  bool is_in_prompt() const { return std::ssize(sequence_->tokens()) < std::ssize(request().prompt()); }
  // The number of tokens to compute before the next one is chosen.
  int64_t missing() const { return std::ssize(request().text()) - std::ssize(sequence_->tokens()); }

  // Whether the step computes a chunk of a prompt that is scored.
  bool scores_prompt() const { return request().scores_prompt() && request().held() < std::ssize(request().prompt()); }

  // Takes over pages that are in the cache already, and tells the request.
  void reuse_pages(int64_t multiple);
  // Writes whole pages to a store, if its prompt was not complete before this step.
  void store_prompt();
  // The next step appends the first `count` missing tokens, at most up to the end of an incomplete prompt. `as_next`:
  // computed like a step of one token per sequence.
  void take_missing(int64_t count, bool as_next = false);
  // The next step appends the last chosen token, and drafted ones after it.
  void take_next(std::vector<int32_t> drafted);
  void take_nothing() { tokens_.clear(); }
  bool takes_part() const { return !tokens_.empty(); }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  Chunk chunk();

  // Takes the results of the step: `logits` [rows, V], or the ids of the largest, for the rows that chunk() wants. The
  // other is empty.
  void stepped(std::span<const float> logits, std::span<const int32_t> largest);

  // Takes the results of the pass over a tree after the text: `logits` has the rows of the last token and of the nodes.
  // Returns the last accepted node; -1: none.
  int32_t stepped_tree(const TokenTree& tree, std::span<const float> logits);
  size_t rows() const;                           // that chunk() wants
  bool ends_text() const { return ends_text_; }  // the step's last row chooses a token
  // Records the time of a step with `tokens` tokens of all requests.
  void passed(int tokens, double seconds);

  // The budget of drafts, from the first call on.
  DraftBudget& budget(int most, double pass_cost);
  // Releases its pages for others: the request waits again.
  ScheduledRequest give_up(int64_t step);
  // The request has ended.
  ScheduledRequest take_scheduled() { return std::move(scheduled_); }
  std::unique_ptr<Sequence> take_sequence() { return std::move(own_); }

 private:
  void choose(size_t row, std::span<const float> logits, std::span<const int32_t> largest);

  ScheduledRequest scheduled_;
  int64_t began_;  // the step
  std::unique_ptr<Sequence> own_;
  Sequence* sequence_;
  std::vector<int32_t> tokens_;  // of the next step
  Chunk::Rows rows_ = Chunk::Rows::kLast;
  bool ends_text_ = false;  // no token is missing after the step
  size_t drafted_ = 0;      // the last ones of `tokens_`
  bool looked_on_disk_ = false, stored_prompt_ = false;
  std::optional<DraftBudget> budget_;
  std::optional<Error> error_;
};

}  // namespace gabbro
