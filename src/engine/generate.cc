#include "gabbro/engine/generate.h"

#include <algorithm>
#include <chrono>

#include "src/base/error.h"
#include "src/engine/engine_state.h"
#include "src/engine/request.h"
#include "src/engine/speculation.h"

namespace gabbro {

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kEndOfGeneration:
      return "eos";
    case StopReason::kMaxTokens:
      return "length";
    case StopReason::kStopText:
      return "stop";
    case StopReason::kContextFull:
      return "context";
    case StopReason::kCanceled:
      return "cancelled";
  }
  return "unknown";
}

namespace {

// The depth of a tree: a branch needs one more page at most, and one that is wrong is cut.
constexpr int64_t kDeepest = kCutTokens;
static_assert(kDeepest <= PagePool::kTokens);
// Cost of a pass that was not measured yet, in tokens.
constexpr double kStreamedPassCost = 30, kResidentPassCost = 4;

// One pass for the last token and the drafted ones after it. Returns how many of them were right.
int verify(Session& session, Request& request, const TokenTree& tree, const std::atomic<bool>* cancel) {
  std::vector<int32_t> tokens(request.pending().begin(), request.pending().end());
  const int64_t before = std::ssize(session.tokens());
  const bool is_chain = tree.leaves().size() == 1;
  if (is_chain) {
    for (const TokenTree::Node& node : tree.nodes) tokens.push_back(node.token);
  }
  const std::span<const float> logits =
      is_chain ? session.append_all_logits(tokens, cancel) : session.append_tree(tokens, tree, cancel);
  const auto row = static_cast<size_t>(session.engine().facts().vocabulary);
  int32_t node = -1;
  int right = 0;
  for (;;) {
    request.appended(1, logits.subspan(static_cast<size_t>(node + 1) * row, row));
    const int32_t next = request.finished() ? -1 : tree.child(node, request.pending().front());
    if (next < 0) break;
    node = next;
    ++right;
  }
  is_chain ? session.truncate(before + 1 + right) : session.keep_branch(node);
  return right;
}

// A pass after the prompt.
void speculate(Session& session, Request& request, Drafter& drafter, DraftBudget& budget,
               const std::atomic<bool>* cancel) {
  const std::vector<int32_t> text = request.text_so_far();
  // The pass computes the last token of the text, and all drafted ones with the same rotation.
  const int64_t room = std::min(session.engine().facts().context - std::ssize(text), session.rotation_room() - 1);
  budget.begin(static_cast<int>(std::min<int64_t>(room, kDeepest)), session.branch_room());
  TokenTree tree;
  if (room > 0) tree = drafter.propose_tree(text, budget, cancel);
  const auto start = std::chrono::steady_clock::now();
  int right = 0;
  if (tree.nodes.empty()) {
    const std::span<const float> logits = session.append(request.pending(), cancel);
    request.appended(1, logits);
  } else {
    right = verify(session, request, tree, cancel);
    size_t depth = 0;
    for (const int32_t leaf : tree.leaves()) depth = std::max(depth, tree.path(leaf).size());
    budget.seen(static_cast<int>(depth), right);
  }
  budget.passed(1 + static_cast<int>(tree.nodes.size()),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  request.speculated(std::ssize(tree.nodes), right);
}

}  // namespace

GenerateResult generate(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options,
                        const std::function<void(std::string_view)>& on_text, const std::atomic<bool>* cancel) {
  Request request(session.engine(), {prompt.begin(), prompt.end()}, options, on_text);
  // The common beginning is kept; the last token always runs, for its logits.
  const auto held = session.tokens();
  const auto [differs, unused] = std::mismatch(prompt.begin(), prompt.end() - 1, held.begin(), held.end());
  session.truncate(differs - prompt.begin());
  request.skip(differs - prompt.begin());
  const Drafter* const drafts = options.drafter.get();
  const bool streams = session.engine().facts().streaming.bytes_per_pass > 0;
  DraftBudget budget(drafts != nullptr ? drafts->most() : 0, streams ? kStreamedPassCost : kResidentPassCost);
  try {
    while (!request.finished()) {
      if (drafts != nullptr && session.tokens().size() >= prompt.size() && (cancel == nullptr || !*cancel)) {
        speculate(session, request, *options.drafter, budget, cancel);
        continue;
      }
      const std::span<const int32_t> tokens = request.pending();
      const std::span<const float> logits = session.append(tokens, cancel);
      if (cancel != nullptr && *cancel) {
        request.cancel();
      } else {
        request.appended(tokens.size(), logits);
      }
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) throw;
    request.cancel();
  }
  return request.take();
}

}  // namespace gabbro
