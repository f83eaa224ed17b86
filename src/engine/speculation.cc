#include "src/engine/speculation.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/text/tokenizer.h"

namespace gabbro {
namespace {

constexpr int kLongestMatch = 4, kShortestMatch = 1;

void require_same_vocabulary(const Engine& draft, const Engine& target) {
  const text::Tokenizer &ours = draft.tokenizer(), &theirs = target.tokenizer();
  bool same = ours.size() == theirs.size() && draft.facts().vocabulary <= target.facts().vocabulary;
  for (int32_t token = 0; same && token < ours.size(); ++token) same = ours.piece(token) == theirs.piece(token);
  if (!same) {
    throw bad_input("the draft model '{}' has another vocabulary than '{}': its tokens mean other texts",
                    draft.facts().name, target.facts().name);
  }
}

}  // namespace

std::vector<int32_t> PromptLookup::propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>*) {
  for (int length = kLongestMatch; length >= kShortestMatch; --length) {
    const auto n = static_cast<size_t>(length);
    if (tokens.size() <= n) continue;
    const auto last = tokens.last(n);
    // The last match that ends before the end.
    for (size_t at = tokens.size() - n; at-- > 0;) {
      if (!std::ranges::equal(tokens.subspan(at, n), last)) continue;
      const auto after = tokens.subspan(at + n);
      std::vector<int32_t> drafted;
      // A match that overlaps the end goes on in a circle.
      for (size_t i = 0; std::ssize(drafted) < count; ++i) drafted.push_back(after[i % after.size()]);
      return drafted;
    }
  }
  return {};
}

DraftModel::DraftModel(std::shared_ptr<Engine> draft, const Engine& target, int most) : session_(draft), most_(most) {
  require_same_vocabulary(*draft, target);
}

std::vector<int32_t> DraftModel::propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>* cancel) {
  const auto held = session_.tokens();
  const auto [differs, unused] = std::mismatch(tokens.begin(), tokens.end() - 1, held.begin(), held.end());
  const auto common = differs - tokens.begin();
  const auto room = session_.engine().facts().context - std::ssize(tokens);
  count = static_cast<int>(std::min<int64_t>(count, room));
  if (count <= 0) return {};
  session_.truncate(common);
  std::span<const float> logits = session_.append(tokens.subspan(static_cast<size_t>(common)), cancel);
  std::vector<int32_t> drafted;
  for (;;) {
    drafted.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
    if (std::ssize(drafted) == count) return drafted;
    logits = session_.append(std::span(&drafted.back(), 1), cancel);
  }
}

// Drafting beyond the token that is as likely to be reached as not costs more than it brings; one at least, to see
// whether the text has changed.
int DraftLength::next() const {
  const double reached = right_ < 1 ? std::log(0.25) / std::log(std::max(right_, 0.05)) : most_;
  return static_cast<int>(std::clamp(std::ceil(reached), 1.0, static_cast<double>(most_)));
}

void DraftLength::seen(int drafted, int accepted) {
  if (drafted == 0) return;
  // Tokens that were judged: those that were accepted, and the first that was not.
  const int judged = std::min(accepted + 1, drafted);
  constexpr double kMemory = 0.9;
  for (int i = 0; i < judged; ++i) right_ = kMemory * right_ + (1 - kMemory) * (i < accepted ? 1 : 0);
}

}  // namespace gabbro
