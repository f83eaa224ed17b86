// The plan of a step of a Scheduler: prompts, the tokens after them, and drafts.
#include <algorithm>
#include <utility>

#include "src/engine/cache/page_pool.h"
#include "src/engine/scheduler.h"

namespace gabbro {
namespace {

// Drafted tokens of a text: a branch needs at most one more page, and a wrong one is cut.
constexpr int64_t kDeepest = PagePool::kTokens;
constexpr int64_t kScoredTokens = 2 * PagePool::kTokens;  // of a prompt per step: their logits are copied to the host

}  // namespace

// Whether this step computes the next page of `later` for `earlier`, whose text has the same beginning.
bool Scheduler::waits_for(const RunningRequest& later, const RunningRequest& earlier) {
  const size_t held = later.sequence().tokens().size(), end = held + static_cast<size_t>(PagePool::kTokens);
  const std::span<const int32_t> a = later.request().prompt(), b = earlier.request().prompt();
  const size_t before = earlier.sequence().tokens().size(), after = before + earlier.tokens().size();
  if (later.sequence().tree() != earlier.sequence().tree()) return false;
  return held % static_cast<size_t>(PagePool::kTokens) == 0 && before < end && end <= after && end < a.size() &&
         end <= b.size() && std::cmp_less_equal(end, earlier.sequence().named()) &&
         std::ranges::equal(a.first(end), b.first(end));
}

// The running requests that the next step may compute.
std::vector<RunningRequest*> Scheduler::chosen() {
  std::vector<RunningRequest*> all;
  for (RunningRequest& one : running_) {
    if (one.is_paused()) suspects_.erase(one.ticket());  // others do not wait for it
  }
  for (RunningRequest& one : running_) {
    one.take_nothing();
    if (one.is_paused()) continue;
    if (suspects_.empty() || one.ticket() == *suspects_.begin()) all.push_back(&one);
  }
  if (all.size() <= most_together_) return all;
  std::ranges::rotate(all, all.begin() + steps_ % std::ssize(all));
  all.resize(most_together_);
  return all;
}

// Plans chunks of the prompts that are not complete. The request that began first gets at least half of the tokens, and
// in the rest short prompts come before long ones, so that a short prompt waits for at most one chunk of a long one.
void Scheduler::plan_prompts(std::span<RunningRequest* const> all) {
  std::vector<RunningRequest*> behind, planned;
  std::ranges::copy_if(all, std::back_inserter(behind), &RunningRequest::is_behind);
  if (behind.empty()) return;
  for (RunningRequest* const one : behind) one->reuse_pages(1);
  std::stable_sort(behind.begin() + 1, behind.end(),
                   [](const RunningRequest* a, const RunningRequest* b) { return a->missing() < b->missing(); });
  const auto plan = [&](RunningRequest& one, int64_t tokens) -> int64_t {
    const auto is_ahead = [&](const RunningRequest* other) { return other != &one && waits_for(one, *other); };
    if (!one.scores_prompt() && std::ranges::any_of(planned, is_ahead)) return 0;
    if (one.scores_prompt()) tokens = std::min(tokens, kScoredTokens);
    one.take_missing(tokens >= one.missing() ? tokens : tokens / PagePool::kTokens * PagePool::kTokens);
    if (one.takes_part()) planned.push_back(&one);
    return std::ssize(one.tokens());
  };
  const bool alone = behind.size() == 1;
  // A single page cannot be divided: the prompts take turns.
  const int64_t half = most_tokens_ / 2 / PagePool::kTokens * PagePool::kTokens,
                turn = steps_ % 2 == 0 ? most_tokens_ : 0;
  const int64_t first_share = alone ? most_tokens_ : half > 0 ? half : turn;
  int64_t left = most_tokens_ - plan(*behind.front(), first_share);
  for (RunningRequest* const one : std::span(behind).subspan(1)) left -= plan(*one, left);
  RunningRequest& first = *behind.front();
  if (!alone && left >= PagePool::kTokens) plan(first, std::ssize(first.tokens()) + left);
}

// Plans only the first text with an incomplete prompt, up to the next multiple of a chunk. Returns false if there is
// none, or if the others have their turn.
bool Scheduler::plan_exact_prompt(std::span<RunningRequest* const> all) {
  const auto first = std::ranges::find_if(all, &RunningRequest::is_in_prompt);
  const bool others = !std::ranges::all_of(all, &RunningRequest::is_in_prompt);
  if (first == all.end() || (others && steps_ % 2 == 0)) return false;
  (*first)->reuse_pages(most_tokens_);
  (*first)->take_missing(most_tokens_ - std::ssize((*first)->sequence().tokens()) % most_tokens_);
  return true;
}

// The number of tokens that can be drafted after the last one of a text, with the rotation of its keys.
int64_t Scheduler::room_of_drafts(const RunningRequest& one) const {
  const int64_t room = runner_.engine()->facts().context - std::ssize(one.request().text());
  return std::min({room, runner_.draft_room(one.sequence()), kDeepest});
}

void Scheduler::plan_next_tokens(std::span<RunningRequest* const> all, const std::atomic<bool>* cancel) {
  std::vector<RunningRequest*> next;
  std::ranges::copy_if(all, std::back_inserter(next), [](const RunningRequest* one) { return !one->is_behind(); });
  std::vector<RunningRequest*> drafting;
  std::vector<DraftedText> texts;
  for (RunningRequest* const one : next) {
    // Tokens that its grammar forces are nearly free for a single text.
    if (all.size() == 1 && one->request().is_constrained() && !options_.deterministic) {
      const int64_t room = room_of_drafts(*one);
      std::vector<int32_t> forced = one->request().forced_tokens(static_cast<size_t>(std::max<int64_t>(room, 0)));
      if (!forced.empty()) {
        one->take_next(std::move(forced));
        continue;
      }
    }
    const int64_t room = drafts_ ? room_of_drafts(*one) : 0;
    if (room <= 0) {
      one->take_next({});
      continue;
    }
    DraftBudget& budget = budget_of(*one);
    budget.begin(static_cast<int>(room), 0, static_cast<int>(all.size()) - 1);
    drafting.push_back(one);
    texts.push_back({one->ticket(), one->request().text(), budget.take_chain()});
  }
  if (texts.empty()) return;
  options_.drafter->propose_all(texts, cancel);
  for (size_t i = 0; i < texts.size(); ++i) drafting[i]->take_next(std::move(texts[i].drafted));
}

DraftBudget& Scheduler::budget_of(RunningRequest& one) const {
  return one.budget(options_.drafter->most(), runner_.draft_defaults().pass_cost);
}

}  // namespace gabbro
