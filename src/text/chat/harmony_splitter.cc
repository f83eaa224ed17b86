#include "src/text/chat/harmony_splitter.h"

#include <utility>

namespace gabbro::text {
namespace {

constexpr std::string_view kBodyMark = "<|message|>", kChannelMark = "<|channel|>", kRecipientMark = "to=";

// The word after `name` in a head; empty: it has none.
std::string_view word_after(std::string_view head, std::string_view name) {
  const size_t at = head.find(name);
  if (at == head.npos) return {};
  const std::string_view rest = head.substr(at + name.size());
  return rest.substr(0, rest.find_first_of(" <\n"));
}

}  // namespace

HarmonySplitter::HarmonySplitter()
    : begins_({"<|channel|>", "<|start|>"}), ends_({"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"}) {}

void HarmonySplitter::feed(std::string_view text, std::vector<AnswerPiece>& pieces) {
  for (const char c : text) step(c, pieces);
}

void HarmonySplitter::add(std::string_view text, std::vector<AnswerPiece>& pieces) const {
  if (text.empty()) return;
  if (!pieces.empty() && pieces.back().is_thought == is_thought_) {
    pieces.back().text += text;
  } else {
    pieces.push_back({std::string(text), is_thought_});
  }
}

void HarmonySplitter::step(char c, std::vector<AnswerPiece>& pieces) {
  if (state_ == State::kHead) {
    head_ += c;
    if (head_.ends_with(kBodyMark)) begin_body(pieces);
    return;
  }
  held_ += c;
  const int found = (state_ == State::kStart ? begins_ : ends_).find(held_);
  if (found == MarkerSearch::kMore) return;
  if (found == MarkerSearch::kText) {
    const std::string text = std::exchange(held_, {});
    state_ = State::kBody;
    add(std::string_view(text).substr(0, 1), pieces);
    for (const char one : std::string_view(text).substr(1)) step(one, pieces);
    return;
  }
  const std::string marker = std::exchange(held_, {});
  if (state_ == State::kBody) end_body(pieces);
  // After the end of a message the head of the next one comes.
  state_ = State::kHead;
  head_ = marker;
}

void HarmonySplitter::begin_body(std::vector<AnswerPiece>& pieces) {
  const std::string_view recipient = word_after(head_, kRecipientMark);
  is_call_ = recipient.starts_with("functions.");
  is_thought_ = !is_call_ && word_after(head_, kChannelMark) == "analysis";
  if (is_call_) {
    add(std::string(kChannelMark) + "commentary to=" + std::string(recipient) + std::string(kBodyMark), pieces);
  }
  head_.clear();
  state_ = State::kBody;
}

void HarmonySplitter::end_body(std::vector<AnswerPiece>& pieces) {
  if (std::exchange(is_call_, false)) add("<|call|>", pieces);
}

void HarmonySplitter::finish(std::vector<AnswerPiece>& pieces) {
  if (state_ != State::kHead) add(held_, pieces);
  held_.clear();
}

}  // namespace gabbro::text
