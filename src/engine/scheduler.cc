#include "src/engine/scheduler.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/engine/cache/page_pool.h"

namespace gabbro {

struct Scheduler::Active {
  Entry entry;
  Sequence sequence;
  std::span<const int32_t> tokens{};  // of the step that is made
  bool waits = false;                 // for room in the cache, until another request ends
  std::optional<Error> error{};

  Request& request() { return *entry.request; }
  const Request& request() const { return *entry.request; }
  void fail(const Error& why) {
    error = why;
    request().cancel();
  }
};

Scheduler::Scheduler(std::shared_ptr<Engine> engine) : runner_(std::move(engine)) {}
Scheduler::~Scheduler() = default;

Ticket Scheduler::add(GenerationRequest request, std::shared_ptr<Channel> channel) {
  const auto own = std::make_shared<Request>(*runner_.engine(), std::move(request.prompt), request.options,
                                             [channel](std::string_view text) { channel->text(text); });
  const auto ended = [own, channel](const Error* error) {
    error != nullptr ? channel->failed(*error) : channel->finished(own->take());
  };
  waiting_.push_back({++tickets_, own.get(), [channel] { channel->started(); }, ended});
  return tickets_;
}

Ticket Scheduler::add(Request& request, std::function<void(const Error* error)> ended) {
  waiting_.push_back({++tickets_, &request, [] {}, std::move(ended)});
  return tickets_;
}

void Scheduler::cancel(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  to_cancel_.insert(ticket);
  interrupt_ = true;
}

// Whether the next page of `later` is computed in this step for `earlier`, whose prompt begins likewise.
bool Scheduler::waits_for(const Active& later, const Active& earlier) {
  const size_t held = later.sequence.tokens().size(), end = held + static_cast<size_t>(PagePool::kTokens);
  const std::span<const int32_t> a = later.request().prompt(), b = earlier.request().prompt();
  const size_t before = earlier.sequence.tokens().size(), after = before + earlier.tokens.size();
  return held % static_cast<size_t>(PagePool::kTokens) == 0 && before < end && end <= after && end < a.size() &&
         end <= b.size() && std::ranges::equal(a.first(end), b.first(end));
}

// The tokens of the next step: one of each request that generates, and the next chunk of prompts in their order, but of
// those that begin likewise the first.
std::vector<Chunk> Scheduler::next_chunks() {
  const bool shares_pages = runner_.engine()->facts().state_bytes == 0;
  int64_t prompt_tokens = runner_.prompt_chunk();
  std::vector<Chunk> chunks;
  for (auto at = active_.begin(); at != active_.end(); ++at) {
    Active& a = *at;
    a.tokens = {};
    if (a.waits) continue;
    const bool in_prompt = std::ssize(a.sequence.tokens()) < std::ssize(a.request().prompt());
    a.sequence.expect(in_prompt ? std::ssize(a.request().prompt()) : 0);
    if (in_prompt) {
      a.request().skip(a.sequence.reuse(a.request().prompt()));
      const auto is_ahead = [&](const Active& earlier) { return waits_for(a, earlier); };
      if (shares_pages && std::any_of(active_.begin(), at, is_ahead)) continue;
    }
    a.tokens = a.request().pending();
    Chunk::Rows rows = Chunk::Rows::kLast;
    if (in_prompt && std::ssize(a.tokens) > prompt_tokens) {
      const int64_t whole_pages = prompt_tokens / PagePool::kTokens * PagePool::kTokens;
      a.tokens = a.tokens.first(static_cast<size_t>(whole_pages));
      rows = Chunk::Rows::kNone;
    }
    if (in_prompt) prompt_tokens -= std::ssize(a.tokens);
    if (!a.tokens.empty()) chunks.push_back({&a.sequence, a.tokens, rows});
  }
  return chunks;
}

void Scheduler::admit() {
  const auto most = static_cast<size_t>(runner_.engine()->facts().sequences);
  while (!waiting_.empty() && active_.size() < most) {
    active_.push_back({.entry = std::move(waiting_.front()), .sequence = Sequence(runner_.engine())});
    waiting_.pop_front();
    active_.back().entry.started();
  }
}

// Passes the rows of a step on: `logits` of all chunks, or the ids of the largest.
void Scheduler::pass_rows(std::span<const Chunk> chunks, std::span<const float> logits,
                          std::span<const int32_t> largest) {
  const auto row = static_cast<size_t>(runner_.engine()->facts().vocabulary);
  size_t rows = 0;  // that were passed on
  for (const Chunk& chunk : chunks) {
    Active& a = *std::ranges::find(active_, chunk.sequence, [](Active& other) { return &other.sequence; });
    const bool has_row = chunk.rows == Chunk::Rows::kLast;
    const size_t own = has_row ? rows++ : rows;
    try {
      if (logits.empty()) {
        a.request().appended(chunk.tokens.size(), has_row ? largest[own] : -1);
      } else {
        a.request().appended(chunk.tokens.size(), logits.subspan(own * row, has_row ? row : 0));
      }
    } catch (const Error& error) {
      a.fail(error);
    }
  }
}

void Scheduler::compute(const std::atomic<bool>* cancel) {
  const std::vector<Chunk> chunks = next_chunks();
  if (!std::ranges::all_of(active_, [](const Active& a) { return a.request().is_greedy(); }))
    return pass_rows(chunks, runner_.step(chunks, cancel), {});
  const bool goes_on =
      waiting_.empty() && std::ranges::all_of(active_, [](const Active& a) { return a.request().goes_on(); });
  pass_rows(chunks, {}, runner_.step_greedy(chunks, cancel, goes_on));
}

// A request for which the cache has no room waits while others run. If all wait, the last one gives its pages to the
// others; one that needs more than there is fails.
void Scheduler::wait_for_room(const CacheFull& full) {
  Active& needs = *std::ranges::find(active_, full.sequence(), [](const Active& a) { return &a.sequence; });
  needs.waits = true;
  if (!std::ranges::all_of(active_, &Active::waits)) return;
  std::vector<Active*> holders;
  for (Active& a : active_) {
    if (a.sequence.holds_pages()) holders.push_back(&a);
  }
  if (holders.size() > 1) {
    holders.back()->sequence.give_up_pages();
    holders.pop_back();
    for (Active* const a : holders) a->waits = false;
    return;
  }
  (holders.empty() ? needs : *holders.front()).fail(full);
}

// Ends the requests that are to be canceled.
void Scheduler::end_canceled(bool all) {
  std::set<Ticket> tickets;
  {
    const std::lock_guard lock(mutex_);
    tickets.swap(to_cancel_);
    interrupt_ = false;
  }
  const auto is_canceled = [&](const Entry& entry) { return all || tickets.contains(entry.ticket); };
  for (Active& a : active_) {
    if (is_canceled(a.entry)) a.request().cancel();
  }
  retire();
  std::deque<Entry> waiting;
  waiting.swap(waiting_);
  for (Entry& entry : waiting) {
    if (!is_canceled(entry)) {
      waiting_.push_back(std::move(entry));
      continue;
    }
    entry.request->cancel();
    entry.ended(nullptr);
  }
}

void Scheduler::retire() {
  std::list<Active> ended;
  for (auto a = active_.begin(); a != active_.end();) {
    const auto next = std::next(a);
    if (a->request().finished()) ended.splice(ended.end(), active_, a);
    a = next;
  }
  if (!ended.empty()) {
    for (Active& other : active_) other.waits = false;
  }
  while (!ended.empty()) {
    const Entry entry = std::move(ended.front().entry);
    const std::optional<Error> error = std::move(ended.front().error);
    ended.pop_front();  // its pages are free before the next request begins
    entry.ended(error ? &*error : nullptr);
  }
}

bool Scheduler::step(const std::atomic<bool>* cancel) {
  const auto all_canceled = [&] { return cancel != nullptr && *cancel; };
  if (all_canceled() || interrupt_) end_canceled(all_canceled());
  admit();
  if (active_.empty()) return false;
  try {
    compute(cancel != nullptr ? cancel : &interrupt_);
  } catch (const CacheFull& full) {
    wait_for_room(full);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) throw;
  }
  if (all_canceled() || interrupt_) end_canceled(all_canceled());
  retire();
  return !active_.empty() || !waiting_.empty();
}

void Scheduler::fail_running(const Error& error) {
  for (Active& a : active_) a.fail(error);
  retire();
}

}  // namespace gabbro
