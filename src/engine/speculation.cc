#include "src/engine/speculation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "src/base/error.h"
#include "src/text/tokenizer.h"

namespace gabbro {
namespace {

constexpr int kLongestMatch = 4, kShortestMatch = 1;
constexpr double kMemory = 0.9;  // of what was seen, for each later pass

void require_same_vocabulary(const Engine& draft, const Engine& target) {
  const text::Tokenizer &ours = draft.tokenizer(), &theirs = target.tokenizer();
  bool same = ours.size() == theirs.size() && draft.facts().vocabulary <= target.facts().vocabulary;
  for (int32_t token = 0; same && token < ours.size(); ++token) same = ours.piece(token) == theirs.piece(token);
  if (!same) {
    throw bad_input("the draft model '{}' has another vocabulary than '{}': its tokens mean other texts",
                    draft.facts().name, target.facts().name);
  }
}

// Visits the tokens after each match, the best match first: the longest, and of several the last one. visit() says
// whether to go on.
template <class Visit>
void visit_matches(std::span<const int32_t> tokens, const Visit& visit) {
  for (int length = kLongestMatch; length >= kShortestMatch; --length) {
    const auto n = static_cast<size_t>(length);
    if (tokens.size() <= n) continue;
    const auto last = tokens.last(n);
    for (size_t at = tokens.size() - n; at-- > 0;) {
      if (std::ranges::equal(tokens.subspan(at, n), last) && !visit(tokens.subspan(at + n))) return;
    }
  }
}

struct Candidate {
  double reach;
  int32_t parent, token;
  bool operator<(const Candidate& other) const { return reach < other.reach; }
};

// The most likely tokens, with their probabilities; of equally likely ones the first, which greedy sampling takes.
std::vector<std::pair<int32_t, double>> most_likely(std::span<const float> logits, size_t count) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int32_t token) { return logits[static_cast<size_t>(token)]; };
  const auto comes_first = [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; };
  count = std::min(count, order.size());
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count), comes_first);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x - logit(order.front())));
  std::vector<std::pair<int32_t, double>> likely;
  for (size_t i = 0; i < count; ++i)
    likely.emplace_back(order[i], std::exp(static_cast<double>(logit(order[i]) - logit(order.front()))) / sum);
  return likely;
}

}  // namespace

void DraftBudget::begin(int depth, int64_t branches, int others) {
  depth_ = std::min(depth, most_);
  branches_ = branches;
  taken_ = 0;
  computed_ = 1 + others;
  expected_ = computed_;
}

// Tokens a second are expected_ / (pass_cost_ + computed_ + taken_).
bool DraftBudget::is_worth(double reach) const {
  return taken_ < most_ && reach * (pass_cost_ + computed_ + taken_) > expected_;
}

void DraftBudget::take(double reach) {
  ++taken_;
  expected_ += reach;
}

bool DraftBudget::take_branch() {
  if (branches_ == 0) return false;
  --branches_;
  return true;
}

void DraftBudget::seen(int drafted, int accepted) {
  // Tokens that were judged: those that were accepted, and the first that was not.
  const int judged = std::min(accepted + 1, drafted);
  for (int i = 0; i < judged; ++i) right_ = kMemory * right_ + (1 - kMemory) * (i < accepted ? 1 : 0);
}

// The cost of a pass is where the line through the times of passes begins, and that of a token is its slope.
void DraftBudget::passed(int tokens, double seconds) {
  for (double* const sum : {&weight_, &tokens_, &seconds_, &squares_, &products_}) *sum *= kMemory;
  weight_ += 1;
  tokens_ += tokens;
  seconds_ += seconds;
  squares_ += static_cast<double>(tokens) * tokens;
  products_ += tokens * seconds;
  const double mean = tokens_ / weight_, variance = squares_ / weight_ - mean * mean;
  if (variance < 1) return;  // passes of one size say nothing
  const double average = seconds_ / weight_;
  constexpr double kLeastCost = 1, kMostCost = 1000;  // where noise hides what tokens cost, or what the rest does
  const double slope = std::max((products_ / weight_ - mean * average) / variance, average / kMostCost);
  pass_cost_ = std::clamp((average - slope * mean) / slope, kLeastCost, kMostCost);
}

int DraftBudget::take_chain() {
  int count = 0;
  for (double reach = right_; count < depth_ && is_worth(reach); reach *= right_) {
    take(reach);
    ++count;
  }
  return std::min(std::max(count, 1), depth_);
}

TokenTree Drafter::propose_tree(std::span<const int32_t> tokens, DraftBudget& budget, const std::atomic<bool>* cancel) {
  const int count = budget.take_chain();
  TokenTree tree;
  if (count == 0) return tree;
  int32_t last = -1;
  for (const int32_t token : propose(tokens, count, cancel)) last = tree.add(last, token);
  return tree;
}

void Drafter::propose_all(std::span<DraftedText> texts, const std::atomic<bool>* cancel) {
  for (DraftedText& text : texts) text.drafted = propose(text.tokens, text.count, cancel);
}

std::vector<int32_t> PromptLookup::propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>*) {
  std::vector<int32_t> drafted;
  visit_matches(tokens, [&](std::span<const int32_t> after) {
    // A match that overlaps the end goes on in a circle.
    for (size_t i = 0; std::ssize(drafted) < count; ++i) drafted.push_back(after[i % after.size()]);
    return false;
  });
  return drafted;
}

TokenTree PromptLookup::propose_tree(std::span<const int32_t> tokens, DraftBudget& budget, const std::atomic<bool>*) {
  struct Continuation {
    std::span<const int32_t> after;
    double reach;  // of its next token
    int length = 0;
    int32_t node = -1;
  };
  constexpr size_t kMostBranches = 3;
  std::vector<Continuation> all;
  visit_matches(tokens, [&](std::span<const int32_t> after) {
    const auto begins_alike = [&](const Continuation& c) { return c.after.front() == after.front(); };
    if (std::ranges::any_of(all, begins_alike)) return true;
    if (!all.empty() && !budget.take_branch()) return false;
    // The first one's share, and of what is left half for each of the others.
    const double right = budget.right();
    all.push_back({after, all.empty() ? right : all.size() == 1 ? (1 - right) / 2 : all.back().reach / 2});
    return all.size() < kMostBranches;
  });
  TokenTree tree;
  for (;;) {
    Continuation* best = nullptr;
    for (Continuation& c : all) {
      if (c.length < budget.depth() && (best == nullptr || c.reach > best->reach)) best = &c;
    }
    if (best == nullptr || (!budget.is_worth(best->reach) && !tree.nodes.empty())) return tree;
    budget.take(best->reach);
    best->node = tree.add(best->node, best->after[static_cast<size_t>(best->length) % best->after.size()]);
    ++best->length;
    best->reach *= budget.right();
  }
}

DraftModel::DraftModel(std::shared_ptr<Engine> draft, const Engine& target, int most)
    : session_(draft), runner_(draft), most_(most) {
  require_same_vocabulary(*draft, target);
}

std::span<const float> DraftModel::logits_after(std::span<const int32_t> tokens, const std::atomic<bool>* cancel) {
  const auto held = session_.tokens();
  const auto [differs, unused] = std::mismatch(tokens.begin(), tokens.end() - 1, held.begin(), held.end());
  const auto common = differs - tokens.begin();
  session_.truncate(common);
  return session_.append(tokens.subspan(static_cast<size_t>(common)), cancel);
}

std::vector<int32_t> DraftModel::propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>* cancel) {
  const auto room = session_.engine().facts().context - std::ssize(tokens);
  count = static_cast<int>(std::min<int64_t>(count, room));
  if (count <= 0) return {};
  std::span<const float> logits = logits_after(tokens, cancel);
  std::vector<int32_t> drafted;
  for (;;) {
    drafted.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
    if (std::ssize(drafted) == count) return drafted;
    logits = session_.append(std::span(&drafted.back(), 1), cancel);
  }
}

// Holds the beginning of the text but for a few last tokens.
Sequence& DraftModel::sequence_of(const DraftedText& text, const std::atomic<bool>* cancel) {
  constexpr int64_t kMostLeft = 8;  // tokens that the first step of all texts computes
  Sequence& sequence = sequences_.try_emplace(text.id, runner_.engine()).first->second;
  const std::span<const int32_t> tokens = text.tokens, held = sequence.tokens();
  const auto [differs, unused] = std::mismatch(tokens.begin(), tokens.end() - 1, held.begin(), held.end());
  sequence.truncate(differs - tokens.begin());
  const int64_t common = sequence.tokens().empty() ? sequence.reuse(tokens) : std::ssize(sequence.tokens());
  if (std::ssize(tokens) - common > kMostLeft) {
    const auto missing = tokens.subspan(static_cast<size_t>(common), tokens.size() - static_cast<size_t>(common) - 1);
    runner_.append(sequence, missing, runner_.prompt_chunk(), Chunk::Rows::kNone, cancel,
                   [](std::span<const float>) {});
  }
  return sequence;
}

void DraftModel::propose_all(std::span<DraftedText> texts, const std::atomic<bool>* cancel) {
  struct Drafting {
    DraftedText* text;
    Sequence* sequence;
  };
  std::vector<Drafting> all;
  session_.truncate(0);  // its pages
  try {
    for (DraftedText& text : texts) {
      const int64_t room = runner_.engine()->facts().context - std::ssize(text.tokens);
      text.count = static_cast<int>(std::clamp<int64_t>(text.count, 0, std::max<int64_t>(room, 0)));
      if (text.count > 0) all.push_back({&text, &sequence_of(text, cancel)});
    }
    while (!all.empty()) {
      std::vector<Chunk> chunks;
      for (const Drafting& one : all) {
        const std::span<const int32_t> tokens = one.text->tokens;
        const auto next = one.text->drafted.empty() ? tokens.subspan(one.sequence->tokens().size())
                                                    : std::span<const int32_t>(&one.text->drafted.back(), 1);
        chunks.push_back({one.sequence, next});
      }
      const std::span<const int32_t> ids = runner_.step_greedy(chunks, cancel);
      for (size_t i = 0; i < all.size(); ++i) {
        if (ids[i] >= 0) all[i].text->drafted.push_back(ids[i]);
        if (ids[i] < 0) all[i].text->count = 0;  // its logits are not numbers
      }
      std::erase_if(all, [](const Drafting& one) { return std::ssize(one.text->drafted) >= one.text->count; });
    }
  } catch (const OutOfMemory&) {
    sequences_.clear();  // what was drafted so far is right
  }
}

TokenTree DraftModel::propose_tree(std::span<const int32_t> tokens, DraftBudget& budget,
                                   const std::atomic<bool>* cancel) {
  TokenTree tree;
  sequences_.clear();  // their pages
  const auto room = session_.engine().facts().context - std::ssize(tokens);
  const auto depth = static_cast<size_t>(std::clamp<int64_t>(room, 0, budget.depth()));
  if (depth == 0) return tree;
  constexpr size_t kMostChildren = 3;
  std::priority_queue<Candidate> candidates;
  std::vector<int32_t> text(tokens.begin(), tokens.end());
  const auto expand = [&](int32_t node, double reach) {
    const auto likely = most_likely(logits_after(text, cancel), kMostChildren);
    // The first one is right as often as it was seen to be: a target that takes its most likely token agrees with it
    // more often than its probability says.
    const double first = likely.front().second, best = std::max(first, budget.right());
    const double others = first < 1 ? (1 - best) / (1 - first) : 0;  // 1 in f64 where the logits differ by 40
    for (const auto& [token, probability] : likely) {
      const bool is_first = token == likely.front().first;
      candidates.push({reach * (is_first ? best : others * probability), node, token});
    }
  };
  expand(-1, 1);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    if (!tree.nodes.empty() && !budget.is_worth(best.reach)) return tree;
    // A second child of a node begins a branch.
    if (!tree.nodes.empty() && tree.has_children(best.parent) && !budget.take_branch()) continue;
    budget.take(best.reach);
    const int32_t node = tree.add(best.parent, best.token);
    const std::vector<int32_t> path = tree.path(node);
    if (path.size() == depth || !budget.is_worth(best.reach)) continue;
    text.resize(tokens.size());
    for (const int32_t at : path) text.push_back(tree.nodes[static_cast<size_t>(at)].token);
    expand(node, best.reach);
  }
  return tree;
}

}  // namespace gabbro
