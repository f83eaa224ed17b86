#include "src/engine/batch.h"

#include <algorithm>
#include <list>
#include <vector>

#include "src/base/error.h"
#include "src/engine/page_pool.h"

namespace gabbro {
namespace {

struct Active {
  size_t index;
  Request* request;
  Sequence sequence;
  std::span<const int32_t> tokens;  // of the step that is made
  bool waits = false;               // for room in the cache, until another request ends
  bool failed = false;
};

// Whether the next page of `later` is computed in this step for `earlier`, whose prompt begins likewise.
bool waits_for(const Active& later, const Active& earlier) {
  const size_t held = later.sequence.tokens().size(), end = held + static_cast<size_t>(PagePool::kTokens);
  const std::span<const int32_t> a = later.request->prompt(), b = earlier.request->prompt();
  const size_t before = earlier.sequence.tokens().size(), after = before + earlier.tokens.size();
  return held % static_cast<size_t>(PagePool::kTokens) == 0 && before < end && end <= after && end < a.size() &&
         end <= b.size() && std::ranges::equal(a.first(end), b.first(end));
}

// The tokens of the next step: one of each request that generates, and the next chunk of prompts in their order, but of
// those that begin likewise the first.
std::vector<Chunk> next_step(std::list<Active>& active, int64_t prompt_tokens, bool shares_pages) {
  std::vector<Chunk> chunks;
  for (auto at = active.begin(); at != active.end(); ++at) {
    Active& a = *at;
    a.tokens = {};
    if (a.waits) continue;
    const bool in_prompt = std::ssize(a.sequence.tokens()) < std::ssize(a.request->prompt());
    a.sequence.expect(in_prompt ? std::ssize(a.request->prompt()) : 0);
    if (in_prompt) {
      a.request->skip(a.sequence.reuse(a.request->prompt()));
      if (shares_pages && std::any_of(active.begin(), at, [&](const Active& earlier) { return waits_for(a, earlier); }))
        continue;
    }
    a.tokens = a.request->pending();
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

}  // namespace

void run_batch(const std::shared_ptr<Engine>& engine, std::span<Request> requests, const BatchOptions& options) {
  Runner runner(engine);
  const ModelFacts& facts = engine->facts();
  std::list<Active> active;
  size_t next = 0;
  const auto retire = [&] {
    for (auto a = active.begin(); a != active.end();) {
      if (!a->request->finished()) {
        ++a;
        continue;
      }
      const size_t index = a->index;
      const bool failed = a->failed;
      a = active.erase(a);
      for (Active& other : active) other.waits = false;
      if (options.on_finished && !failed) options.on_finished(index);
    }
  };
  const auto fail = [&](Active& a, const Error& error) {
    a.failed = true;
    a.request->cancel();
    options.on_failed(a.index, error);
  };
  // A request for which the cache has no room waits while others run. If all wait, the last one gives its pages to the
  // others; one that needs more than there is fails.
  const auto wait_for_room = [&](const CacheFull& full) {
    Active* needs = &*std::ranges::find(active, full.sequence(), [](const Active& a) { return &a.sequence; });
    needs->waits = true;
    if (!std::ranges::all_of(active, &Active::waits)) return;
    std::vector<Active*> holders;
    for (Active& a : active) {
      if (a.sequence.holds_pages()) holders.push_back(&a);
    }
    if (holders.size() > 1) {
      holders.back()->sequence.give_up_pages();
      holders.pop_back();
      for (Active* const a : holders) a->waits = false;
      return;
    }
    if (!options.on_failed) throw full;
    fail(holders.empty() ? *needs : *holders.front(), full);
  };
  const auto cancel_all = [&] {
    for (Active& a : active) a.request->cancel();
    retire();
    for (; next < requests.size(); ++next) {
      requests[next].cancel();
      if (options.on_finished) options.on_finished(next);
    }
  };
  while (next < requests.size() || !active.empty()) {
    for (; next < requests.size() && std::ssize(active) < facts.sequences; ++next)
      active.push_back({.index = next, .request = &requests[next], .sequence = Sequence(engine), .tokens = {}});
    const std::vector<Chunk> chunks = next_step(active, runner.prompt_chunk(), facts.state_bytes == 0);
    const bool greedy = std::ranges::all_of(active, [](const Active& a) { return a.request->is_greedy(); });
    try {
      std::span<const float> logits;
      std::span<const int32_t> largest;
      if (greedy) {
        const bool goes_on = next == requests.size() &&
                             std::ranges::all_of(active, [](const Active& a) { return a.request->goes_on(); });
        largest = runner.step_greedy(chunks, options.cancel, goes_on);
      } else {
        logits = runner.step(chunks, options.cancel);
      }
      if (options.cancel != nullptr && *options.cancel) return cancel_all();
      const auto row = static_cast<size_t>(facts.vocabulary);
      size_t rows = 0;  // that were handed out
      for (const Chunk& chunk : chunks) {
        const auto a = std::ranges::find(active, chunk.sequence, [](Active& other) { return &other.sequence; });
        const bool has_row = chunk.rows == Chunk::Rows::kLast;
        const size_t own = has_row ? rows++ : rows;
        try {
          if (greedy) {
            a->request->appended(chunk.tokens.size(), has_row ? largest[own] : -1);
          } else {
            a->request->appended(chunk.tokens.size(), logits.subspan(own * row, has_row ? row : 0));
          }
        } catch (const Error& error) {
          if (!options.on_failed) throw;
          fail(*a, error);
        }
      }
    } catch (const CacheFull& full) {
      wait_for_room(full);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInterrupted) throw;
      return cancel_all();
    }
    retire();
  }
}

}  // namespace gabbro
