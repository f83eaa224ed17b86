#include "src/text/grammar/matcher.h"

#include <algorithm>

namespace gabbro::text::grammar {
namespace {

constexpr size_t kMostGrammars = 64, kMostTries = 4;

}  // namespace

Matcher::Matcher(std::shared_ptr<SharedMasks> masks)
    : masks_(std::move(masks)), state_(masks_->maker.automaton().start()) {}

Automaton::State Matcher::after(Automaton::State state, int32_t token) const {
  const TokenTrie& tokens = masks_->maker.tokens();
  if (token < 0 || static_cast<size_t>(token) >= tokens.size() || tokens.piece(token).empty()) return Automaton::kDead;
  return masks_->maker.automaton().next(state, tokens.piece(token));
}

bool Matcher::accept(int32_t token) {
  const std::lock_guard lock(masks_->mutex);
  const Automaton::State next = after(state_, token);
  if (next == Automaton::kDead) return false;
  state_ = next;
  return true;
}

std::shared_ptr<const TokenMask> Matcher::mask() {
  // A long text, or many, filled the tables: this one goes on with empty ones.
  std::shared_ptr<SharedMasks> fresh;
  {
    const std::lock_guard lock(masks_->mutex);
    if (!masks_->maker.is_full()) return masks_->maker.mask(state_);
    fresh = std::make_shared<SharedMasks>(masks_->maker.automaton().program(), masks_->maker.shared_tokens());
    state_ = masks_->maker.automaton().transfer(state_, fresh->maker.automaton());
  }
  masks_ = std::move(fresh);
  const std::lock_guard lock(masks_->mutex);
  return masks_->maker.mask(state_);
}

bool Matcher::may_end() const {
  const std::lock_guard lock(masks_->mutex);
  return masks_->maker.automaton().accepts(state_);
}

bool Matcher::is_complete() const {
  const std::lock_guard lock(masks_->mutex);
  return masks_->maker.automaton().is_complete(state_);
}

size_t Matcher::allowed(std::span<const int32_t> tokens) const {
  const std::lock_guard lock(masks_->mutex);
  size_t count = 0;
  for (Automaton::State state = state_; count < tokens.size(); ++count) {
    state = after(state, tokens[count]);
    if (state == Automaton::kDead) break;
  }
  return count;
}

std::string Matcher::forced_text(size_t most) const {
  const std::lock_guard lock(masks_->mutex);
  Automaton& automaton = masks_->maker.automaton();
  std::string text;
  Automaton::State state = state_;
  while (text.size() < most) {
    const int byte = automaton.forced_byte(state);
    if (byte < 0) break;
    text += static_cast<char>(byte);
    state = automaton.next(state, static_cast<uint8_t>(byte));
  }
  return text;
}

// The masks of a grammar that is compiled; null: there is none.
std::shared_ptr<SharedMasks> GrammarSet::find(const OutputFormat& format) {
  const auto found = std::ranges::find(entries_, format, &Entry::format);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  const std::unique_lock lock(found->masks->mutex);
  if (found->masks->maker.is_full())
    return std::make_shared<SharedMasks>(found->program, found->masks->maker.shared_tokens());
  return found->masks;
}

// The trie, which spells these control tokens by their names.
std::shared_ptr<const TokenTrie> GrammarSet::tokens_with(const std::vector<std::string>& controls) {
  std::vector<int32_t> ids;
  for (const std::string& name : controls) {
    if (const auto found = controls_.find(name); found != controls_.end()) ids.push_back(found->second);
  }
  if (ids.empty()) return tokens_;
  std::ranges::sort(ids);
  const std::lock_guard lock(mutex_);
  if (const auto found = tries_.find(ids); found != tries_.end()) return found->second;
  std::vector<std::string> pieces(tokens_->size());
  for (size_t i = 0; i < pieces.size(); ++i) pieces[i] = tokens_->piece(static_cast<int32_t>(i));
  for (const auto& [name, id] : controls_) {
    if (std::ranges::binary_search(ids, id)) pieces[static_cast<size_t>(id)] = name;
  }
  if (tries_.size() >= kMostTries) tries_.clear();
  return tries_[ids] = std::make_shared<const TokenTrie>(std::move(pieces));
}

Matcher GrammarSet::matcher(const OutputFormat& format) {
  {
    const std::lock_guard lock(mutex_);
    if (const std::shared_ptr<SharedMasks> masks = find(format)) {
      entries_.front().masks = masks;
      return Matcher(masks);
    }
  }
  const std::shared_ptr<const Program> program = compile_format(format);  // others need not wait for it
  const auto masks = std::make_shared<SharedMasks>(program, tokens_with(format.controls));
  const std::lock_guard lock(mutex_);
  entries_.push_front({format, program, masks});
  if (entries_.size() > kMostGrammars) entries_.pop_back();
  return Matcher(masks);
}

}  // namespace gabbro::text::grammar
