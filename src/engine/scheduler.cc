#include "src/engine/scheduler.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "src/base/error.h"
#include "src/base/seconds_since.h"
#include "src/engine/cache/page_pool.h"

namespace gabbro {
namespace {

constexpr int64_t kStepsOfShortage = 64;  // after which a step may be larger again
constexpr std::chrono::milliseconds kAllPaused{5};

}  // namespace

Scheduler::Scheduler(std::shared_ptr<Engine> engine, SchedulerOptions options)
    : options_(std::move(options)),
      runner_(std::move(engine)),
      forecast_(runner_.engine()->facts()),
      drafts_(options_.drafter != nullptr && !options_.deterministic),
      most_allowed_(options_.deterministic && runner_.rotates_by_length()
                        ? 1  // steps of several rotations are computed in another way
                        : static_cast<size_t>(runner_.engine()->facts().sequences)),
      most_together_(most_allowed_),
      most_tokens_(options_.step_tokens > 0 ? options_.step_tokens : runner_.prompt_chunk()) {
  runner_.open_store(options_.store, options_.deterministic ? "deterministic" : "");
  if (!options_.deterministic) return;
  runner_.pad_steps(runner_.engine()->facts().sequences);
  most_tokens_ = std::max(most_tokens_ / PagePool::kTokens, int64_t{1}) * PagePool::kTokens;
}
Scheduler::~Scheduler() = default;

Ticket Scheduler::push(ScheduledRequest scheduled, int priority) {
  if (options_.most_waiting > 0 && waiting_.size() >= options_.most_waiting)
    throw QueueFull(fmt::format("{} requests wait already, as many as may", waiting_.size()));
  scheduled.ticket = ++tickets_;
  scheduled.priority = priority;
  scheduled.since = steps_;
  shares_.came(scheduled.owner);
  waiting_.push(std::move(scheduled));
  return tickets_;
}

Ticket Scheduler::add(GenerationRequest request, std::shared_ptr<Channel> channel) {
  const Engine& engine = *runner_.engine();
  check_request(request, engine.facts(), engine.tokenizer());
  if (request.options.scores_prompt && runner_.encodes_texts())
    throw bad_input("a model with an encoder gives no scores of a prompt");
  const auto own = std::make_shared<Request>(engine, std::move(request.prompt), request.options,
                                             [channel](std::string_view text) { channel->text(text); });
  if (request.options.sampler.top_logprobs >= 0)
    own->listen_to_scores([channel](std::span<const TokenScore> scores) { channel->scores(scores); });
  const auto ended = [own, channel](const Error* error) {
    error != nullptr ? channel->failed(*error) : channel->finished(own->take());
  };
  return push({.request = own.get(),
               .owner = std::move(request.owner),
               .tree = std::move(request.tree),
               .started = [channel] { channel->started(); },
               .ended = ended},
              request.priority);
}

Ticket Scheduler::add(Request& request, Sequence* sequence, std::function<void(const Error* error)> ended) {
  return push({.request = &request, .sequence = sequence, .started = [] {}, .ended = std::move(ended)}, 0);
}

void Scheduler::cancel(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  to_cancel_.insert(ticket);
  interrupt_ = true;
}

void Scheduler::pause(Ticket ticket, bool paused) {
  const std::lock_guard lock(mutex_);
  to_pause_[ticket] = paused;
  has_pauses_ = true;
}

void Scheduler::pause_wanted() {
  std::map<Ticket, bool> wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted.swap(to_pause_);
    has_pauses_ = false;
  }
  for (RunningRequest& one : running_) {
    if (const auto found = wanted.find(one.ticket()); found != wanted.end()) one.pause(found->second);
  }
  for (const auto& [ticket, paused] : wanted) {
    if (ScheduledRequest* const one = waiting_.find(ticket)) one->paused = paused;
  }
}

// The running request that began last among those with the lowest priority that `may` accepts; null: none.
RunningRequest* Scheduler::last_of_lowest_priority(const std::function<bool(const RunningRequest&)>& may_be) {
  RunningRequest* found = nullptr;
  for (RunningRequest& one : running_) {
    if (may_be(one) && (found == nullptr || one.level() <= found->level())) found = &one;
  }
  return found;
}

// A single running request may draft a tree. Returns false if it drafts a chain, which is planned, or nothing.
bool Scheduler::step_tree(RunningRequest& one, const std::atomic<bool>* cancel) {
  if (!drafts_ || one.is_behind() || one.request().is_constrained()) return false;
  const int64_t branches = trees_.branch_room(), room = room_of_drafts(one);
  if (branches == 0 || room <= 0) return false;
  DraftBudget& budget = budget_of(one);
  budget.begin(static_cast<int>(room), branches);
  const TokenTree tree = options_.drafter->propose_tree(one.request().text(), budget, cancel);
  const std::vector<int32_t> leaves = tree.leaves();
  std::vector<int32_t> chain;
  if (leaves.size() == 1) {
    for (const TokenTree::Node& node : tree.nodes) chain.push_back(node.token);
  }
  one.take_next(std::move(chain));
  if (leaves.size() < 2) return false;
  const auto start = std::chrono::steady_clock::now();
  const std::span<const float> logits = trees_.step(one.sequence(), one.tokens(), tree, cancel);
  trees_.keep_branch(one.sequence(), one.tokens(), one.stepped_tree(tree, logits));
  budget.passed(1 + static_cast<int>(tree.nodes.size()), seconds_since(start));
  return true;
}

// Passes on the rows of a step: `logits` of all requests, or the ids of the largest.
void Scheduler::pass_rows(std::span<RunningRequest* const> all, std::span<const float> logits,
                          std::span<const int32_t> largest) {
  const auto width = static_cast<size_t>(runner_.engine()->facts().vocabulary);
  size_t row = 0;
  for (RunningRequest* const one : all) {
    const size_t rows = one->rows();
    if (logits.empty()) {
      one->stepped({}, largest.subspan(row, rows));
    } else {
      one->stepped(logits.subspan(row * width, rows * width), {});
    }
    row += rows;
  }
}

void Scheduler::compute(const std::atomic<bool>* cancel) {
  const std::vector<RunningRequest*> all = chosen();
  if (all.empty()) {
    std::this_thread::sleep_for(kAllPaused);
    return;
  }
  if (options_.deterministic) {
    if (!plan_exact_prompt(all)) {
      for (RunningRequest* const one : all) {
        if (!one->is_in_prompt()) one->take_missing(1, true);
      }
    }
  } else {
    plan_prompts(all);
    if (all.size() == 1 && running_.size() == 1 && step_tree(*all.front(), cancel)) return;
    const auto is_planned = [](const RunningRequest* one) { return one->takes_part(); };
    if (all.size() > 1 || !std::ranges::any_of(all, is_planned)) plan_next_tokens(all, cancel);
  }
  std::vector<RunningRequest*> taking;
  std::vector<Chunk> chunks;
  std::vector<Sampler*> samplers;  // of the wanted rows; null: the largest logit
  int64_t prompt_tokens = 0;
  bool goes_on = waiting_.empty(), has_prompts = false, needs_logits = false;
  for (RunningRequest* const one : all) {
    if (!one->takes_part()) continue;
    taking.push_back(one);
    chunks.push_back(one->chunk());
    needs_logits = needs_logits || one->scores_prompt() || (one->rows() > 1 && !one->request().is_greedy());
    const bool chooses = one->ends_text() && !one->request().is_greedy();
    samplers.insert(samplers.end(), one->rows(), chooses ? one->request().sampler() : nullptr);
    goes_on = goes_on && one->request().goes_on() && one->tokens().size() == 1;
    has_prompts = has_prompts || one->is_behind();
    if (one->is_behind()) prompt_tokens += std::ssize(one->tokens());
  }
  const auto start = std::chrono::steady_clock::now();
  // Drafts are sampled in sequence, and rows of a prompt are scored. A single row is chosen equally fast on the host,
  // without kernels that other steps do not need.
  if (needs_logits || (taking.size() == 1 && !options_.deterministic)) {
    pass_rows(taking, runner_.step(chunks, cancel), {});
  } else {
    goes_on = goes_on && taking.size() == running_.size();
    pass_rows(taking, {}, runner_.step_tokens(chunks, samplers, cancel, goes_on));
  }
  note_step(taking, prompt_tokens, seconds_since(start));
  last_failure_.clear();
  if (!suspects_.empty()) suspects_.erase(suspects_.begin());
  if (!drafts_ || has_prompts) return;
  int tokens = 0;
  for (const RunningRequest* const one : taking) tokens += static_cast<int>(one->tokens().size());
  for (RunningRequest* const one : taking) one->passed(tokens, seconds_since(start));
}

void Scheduler::note_step(std::span<RunningRequest* const> taking, int64_t prompt_tokens, double seconds) {
  for (RunningRequest* const one : taking) {
    shares_.had(one->owner(), std::ssize(one->tokens()));
    one->store_prompt();
  }
  forecast_.measured(prompt_tokens, seconds);
}

double Scheduler::step_forecast() const {
  const bool has_prompts =
      !waiting_.empty() || std::ranges::any_of(running_, [](const RunningRequest& one) { return one.is_behind(); });
  return forecast_.seconds(has_prompts ? most_tokens_ : 0);
}

// The cache has no page for a request: preempts kept sequences first, then the request that began last.
void Scheduler::free_pages(const CacheFull& full) {
  closed_ = true;
  if (kept_.drop_oldest()) return;
  RunningRequest& needs =
      *std::ranges::find(running_, full.sequence(), [](RunningRequest& one) { return &one.sequence(); });
  if (running_.size() == 1) return end_without_room(needs.request(), full, [&](const Error& why) { needs.fail(why); });
  // Spares requests that were preempted often, as long as there is another.
  const auto holds = [](const RunningRequest& one) { return one.sequence().holds_pages(); };
  RunningRequest* holder = last_of_lowest_priority(
      [&](const RunningRequest& one) { return holds(one) && one.preemptions() < kMostPreemptions; });
  if (holder == nullptr) holder = last_of_lowest_priority(holds);
  preempt(holder != nullptr ? *holder : needs);
}

// Handles a step that failed and left its sequences unchanged.
void Scheduler::isolate(const Error& error) {
  std::vector<RunningRequest*> taking;
  for (RunningRequest& one : running_) {
    if (one.takes_part()) taking.push_back(&one);
  }
  runner_.require_unchanged_files();
  if (taking.empty()) throw;  // it concerns no single request
  const bool is_short = dynamic_cast<const OutOfMemory*>(&error) != nullptr;
  if (is_short) short_since_ = steps_;
  if (taking.size() > 1) {
    if (is_short) {
      most_together_ = taking.size() / 2;
    } else {
      for (const RunningRequest* const one : taking) suspects_.insert(one->ticket());
    }
  } else if (is_short && !options_.deterministic && std::ssize(taking.front()->tokens()) > PagePool::kTokens) {
    most_tokens_ = std::max(std::ssize(taking.front()->tokens()) / 2, PagePool::kTokens);
  } else {
    // If consecutive requests fail in the same way, the engine is at fault.
    if (std::exchange(last_failure_, error.what()) == error.what()) throw;
    suspects_.erase(taking.front()->ticket());
    taking.front()->fail(error);
  }
}

// Ends the requests that are to be canceled.
void Scheduler::end_canceled(bool all) {
  std::set<Ticket> tickets;
  {
    const std::lock_guard lock(mutex_);
    tickets.swap(to_cancel_);
    interrupt_ = false;
  }
  for (RunningRequest& one : running_) {
    if (all || tickets.contains(one.ticket())) one.request().cancel();
  }
  retire();
  for (ScheduledRequest& one :
       waiting_.extract([&](const ScheduledRequest& request) { return all || tickets.contains(request.ticket); })) {
    one.request->cancel();
    shares_.ended(one.owner);
    one.ended(nullptr);
  }
}

void Scheduler::retire() {
  Running ended;
  for (auto one = running_.begin(); one != running_.end();) {
    const auto next = std::next(one);
    if (one->request().finished()) ended.splice(ended.end(), running_, one);
    one = next;
  }
  while (!ended.empty()) {
    RunningRequest& one = ended.front();
    const std::optional<Error> error = one.error();
    const ScheduledRequest scheduled = one.take_scheduled();
    suspects_.erase(scheduled.ticket);
    shares_.ended(scheduled.owner);
    if (options_.drafter != nullptr) options_.drafter->forget(scheduled.ticket);
    if (!error) one.sequence().store_pages();
    if (!error && !options_.deterministic) kept_.keep(one.take_sequence(), most_allowed_);
    ended.pop_front();  // its pages are free before the next request begins
    closed_ = false;
    scheduled.ended(error ? &*error : nullptr);
  }
}

bool Scheduler::step(const std::atomic<bool>* cancel) {
  const auto all_canceled = [&] { return cancel != nullptr && *cancel; };
  if (all_canceled() || interrupt_) end_canceled(all_canceled());
  if (has_pauses_) pause_wanted();
  ++steps_;
  if (steps_ - short_since_ > kStepsOfShortage) {
    short_since_ = steps_;
    most_together_ = std::min(2 * most_together_, most_allowed_);
  }
  admit();
  if (running_.empty()) {
    if (waiting_.empty()) return false;
    std::this_thread::sleep_for(kAllPaused);
    return true;
  }
  try {
    compute(cancel != nullptr ? cancel : &interrupt_);
  } catch (const CacheFull& full) {
    free_pages(full);
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) isolate(error);
  }
  if (all_canceled() || interrupt_) end_canceled(all_canceled());
  retire();
  return !running_.empty() || !waiting_.empty();
}

void Scheduler::fail_running(const Error& error) {
  for (RunningRequest& one : running_) one.fail(error);
  retire();
}

}  // namespace gabbro
