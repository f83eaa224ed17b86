#include "src/engine/running_request.h"

#include <algorithm>
#include <utility>

namespace gabbro {

RunningRequest::RunningRequest(ScheduledRequest scheduled, const std::shared_ptr<Engine>& engine,
                               std::unique_ptr<Sequence> kept, int64_t step)
    : scheduled_(std::move(scheduled)), began_(step), own_(std::move(kept)), sequence_(scheduled_.sequence) {
  if (sequence_ == nullptr && own_ == nullptr) own_ = std::make_unique<Sequence>(engine);
  if (sequence_ == nullptr) {
    sequence_ = own_.get();
    if (sequence_->tokens().empty()) sequence_->set_tree(scheduled_.tree);
  }
  // The common beginning is kept; the last token always runs, for its logits.
  const std::span<const int32_t> text = request().text();
  const std::span<const int32_t> held = sequence_->tokens();
  const auto [differs, unused] = std::mismatch(text.begin(), text.end() - 1, held.begin(), held.end());
  request().rewind();
  sequence_->truncate(scores_prompt() ? 0 : differs - text.begin());
  if (is_in_prompt() && !sequence_->tokens().empty()) request().skip(std::ssize(sequence_->tokens()));
}

void RunningRequest::fail(const Error& why) {
  error_ = why;
  request().cancel();
}

void RunningRequest::reuse_pages(int64_t multiple) {
  const std::span<const int32_t> text = request().text();
  sequence_->expect(std::ssize(text));
  if (scores_prompt()) return;
  const int64_t held = std::ssize(sequence_->tokens()),
                found = sequence_->reuse(text, !std::exchange(looked_on_disk_, true));
  if (found > held && found % multiple != 0) sequence_->truncate(std::max(held, found / multiple * multiple));
  const int64_t now = std::min(std::ssize(sequence_->tokens()), std::ssize(request().prompt()));
  if (request().held() < now) request().skip(std::min(now, std::ssize(request().prompt()) - 1));
}

void RunningRequest::store_prompt() {
  if (is_in_prompt() || std::exchange(stored_prompt_, true)) return;
  sequence_->store_pages();
}

void RunningRequest::take_missing(int64_t count, bool as_next) {
  const std::span<const int32_t> text = request().text();
  const int64_t held = std::ssize(sequence_->tokens()), prompt = std::ssize(request().prompt());
  const int64_t end = std::min(held + count, held < prompt ? prompt : std::ssize(text));
  tokens_.assign(text.begin() + held, text.begin() + end);
  drafted_ = 0;
  ends_text_ = end == std::ssize(text);
  rows_ = scores_prompt() ? Chunk::Rows::kAll : ends_text_ || as_next ? Chunk::Rows::kLast : Chunk::Rows::kNone;
}

void RunningRequest::take_next(std::vector<int32_t> drafted) {
  sequence_->expect(0);
  drafted.resize(request().allowed(drafted));
  tokens_.assign(1, request().pending().front());
  tokens_.insert(tokens_.end(), drafted.begin(), drafted.end());
  drafted_ = drafted.size();
  ends_text_ = true;
  rows_ = drafted.empty() ? Chunk::Rows::kLast : Chunk::Rows::kAll;
}

Chunk RunningRequest::chunk() { return {sequence_, tokens_, rows_}; }

void RunningRequest::choose(size_t row, std::span<const float> logits, std::span<const int32_t> largest) {
  if (largest.empty()) {
    const size_t width = logits.size() / rows();
    request().appended(1, logits.subspan(row * width, width));
  } else {
    request().appended(1, largest[row]);
  }
}

void RunningRequest::stepped(std::span<const float> logits, std::span<const int32_t> largest) try {
  const int64_t before = std::ssize(sequence_->tokens()) - std::ssize(tokens_);
  const int64_t prompt = std::ssize(request().prompt());
  if (before < prompt && request().held() < prompt) {
    // A step never goes past a prompt that was not whole before.
    const auto count = tokens_.size();
    if (scores_prompt()) {
      request().score_prompt(before, logits);
      return request().appended(count, logits.last(logits.size() / rows()));
    }
    largest.empty() ? request().appended(count, logits) : request().appended(count, largest.front());
    return;
  }
  if (!ends_text_) return;
  size_t right = 0;
  choose(0, logits, largest);
  while (right < drafted_ && !request().finished() && request().pending().front() == tokens_[right + 1])
    choose(++right, logits, largest);
  if (right < drafted_) sequence_->truncate(before + 1 + static_cast<int64_t>(right));
  if (!budget_) return;
  if (drafted_ > 0) budget_->seen(static_cast<int>(drafted_), static_cast<int>(right));
  request().speculated(static_cast<int64_t>(drafted_), static_cast<int64_t>(right));
} catch (const DeviceLost&) {
  throw;
} catch (const Error& error) {
  fail(error);
}

int32_t RunningRequest::stepped_tree(const TokenTree& tree, std::span<const float> logits) {
  const size_t width = logits.size() / (tree.nodes.size() + 1);
  int32_t node = -1;
  int right = 0;
  try {
    for (;;) {
      request().appended(1, logits.subspan(static_cast<size_t>(node + 1) * width, width));
      const int32_t next = request().finished() ? -1 : tree.child(node, request().pending().front());
      if (next < 0) break;
      node = next;
      ++right;
    }
  } catch (const Error& error) {
    fail(error);
  }
  size_t depth = 0;
  for (const int32_t leaf : tree.leaves()) depth = std::max(depth, tree.path(leaf).size());
  budget_->seen(static_cast<int>(depth), right);
  request().speculated(std::ssize(tree.nodes), right);
  return node;
}

size_t RunningRequest::rows() const {
  if (rows_ == Chunk::Rows::kAll) return tokens_.size();
  return rows_ == Chunk::Rows::kLast ? 1 : 0;
}

void RunningRequest::passed(int tokens, double seconds) {
  if (budget_) budget_->passed(tokens, seconds);
}

DraftBudget& RunningRequest::budget(int most, double pass_cost) {
  if (!budget_) budget_.emplace(most, pass_cost);
  return *budget_;
}

ScheduledRequest RunningRequest::give_up(int64_t step) {
  sequence_->truncate(0);
  request().rewind();
  scheduled_.resumes = true;
  ++scheduled_.preemptions;
  scheduled_.since += step - began_;
  return std::move(scheduled_);
}

}  // namespace gabbro
