#include "src/server/answer/thoughts.h"

#include <algorithm>

namespace gabbro::server {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>", kSpace = " \t\r\n";

void add(std::vector<AnswerPiece>& pieces, std::string_view text, bool is_thought) {
  if (!text.empty()) pieces.push_back({std::string(text), is_thought});
}

// The length of the longest end of `text` that begins `tag`.
size_t begun_tag(std::string_view text, std::string_view tag) {
  for (size_t length = std::min(text.size(), tag.size() - 1); length > 0; --length) {
    if (text.ends_with(tag.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

ThoughtSplitter::ThoughtSplitter(Mode mode)
    : state_(mode == Mode::kOff      ? State::kAnswer
             : mode == Mode::kDetect ? State::kStart
                                     : State::kThoughtStart) {}

std::vector<AnswerPiece> ThoughtSplitter::feed(std::string_view text) {
  std::vector<AnswerPiece> pieces;
  pending_ += text;
  advance(pieces, false);
  return pieces;
}

std::vector<AnswerPiece> ThoughtSplitter::finish() {
  std::vector<AnswerPiece> pieces;
  advance(pieces, true);
  return pieces;
}

void ThoughtSplitter::advance(std::vector<AnswerPiece>& pieces, bool at_end) {
  if (state_ == State::kStart) {
    const size_t first = std::min(pending_.find_first_not_of(kSpace), pending_.size());
    const std::string_view rest = std::string_view(pending_).substr(first);
    if (rest.starts_with(kOpen)) {
      pending_.erase(0, first + kOpen.size());
      state_ = State::kThoughtStart;
    } else if (!at_end && kOpen.starts_with(rest)) {
      return;
    } else {
      state_ = State::kAnswer;
    }
  }
  if (state_ == State::kThoughtStart || state_ == State::kThought) advance_thought(pieces, at_end);
  if (state_ == State::kAnswerStart) {
    const size_t first = pending_.find_first_not_of(kSpace);
    if (first == pending_.npos) return pending_.clear();
    pending_.erase(0, first);
    state_ = State::kAnswer;
  }
  if (state_ == State::kAnswer) {
    add(pieces, pending_, false);
    pending_.clear();
  }
}

void ThoughtSplitter::advance_thought(std::vector<AnswerPiece>& pieces, bool at_end) {
  if (state_ == State::kThoughtStart) {
    const size_t first = pending_.find_first_not_of(kSpace);
    if (first == pending_.npos) return pending_.clear();
    pending_.erase(0, first);
    state_ = State::kThought;
  }
  const size_t close = pending_.find(kClose);
  std::string_view thought = std::string_view(pending_).substr(0, close);
  if (close == pending_.npos && !at_end) thought.remove_suffix(begun_tag(thought, kClose));
  // White space may be followed by the tag.
  const size_t last = thought.find_last_not_of(kSpace);
  thought = thought.substr(0, last == thought.npos ? 0 : last + 1);
  add(pieces, thought, true);
  if (close == pending_.npos) {
    pending_.erase(0, thought.size());
    return;
  }
  pending_.erase(0, close + kClose.size());
  state_ = State::kAnswerStart;
}

bool ends_with_open_thought(std::string_view prompt) {
  const size_t last = prompt.find_last_not_of(kSpace);
  return last != prompt.npos && prompt.substr(0, last + 1).ends_with(kOpen);
}

}  // namespace gabbro::server
