#include "src/text/chat/thoughts.h"

#include <algorithm>

#include "src/text/chat/harmony_splitter.h"

namespace gabbro::text {
namespace {

constexpr std::string_view kThoughtSpace = " \t\r\n";

// A template has the tag that closes thoughts, or the one that opens them.
constexpr ThoughtForm kThoughtForms[] = {
    {"<think>", "</think>"},       {"[THINK]", "[/THINK]"},           {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<mm:think>", "</mm:think>"}, {"<seed:think>", "</seed:think>"}, {"<|channel>thought\n", "<channel|>"}};

void add_piece(std::vector<AnswerPiece>& pieces, std::string_view text, bool is_thought) {
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

std::string closing_of(const ThoughtForm& form) {
  if (form.is_harmony) return "<|end|><|start|>assistant<|channel|>final<|message|>";
  const std::string close(form.close);
  return form.close.starts_with("</") ? "\n" + close + "\n\n" : close;
}

std::string soft_closing_of(const ThoughtForm& form) { return form.is_harmony ? "<|end|><|start|>assistant" : ""; }

ThoughtForm thought_form(std::string_view source) {
  const auto has = [&](std::string_view text) { return source.find(text) != source.npos; };
  if (has("<|channel|>") && has("<|message|>")) return {.is_harmony = true, .is_known = true};
  const auto found = std::ranges::find_if(kThoughtForms, [&](const ThoughtForm& form) {
    return has(form.close) || has(form.open.substr(0, form.open.find('\n')));
  });
  if (found == std::end(kThoughtForms)) return {};
  ThoughtForm form = *found;
  form.is_known = true;
  return form;
}

std::vector<std::string> thought_controls(const ThoughtForm& form) {
  std::vector<std::string> names;
  for (const std::string_view tag : {form.open, form.close}) {
    const size_t end = tag.find('>');  // "<|channel>thought" is a token and a word
    names.emplace_back(tag.substr(0, end == tag.npos ? end : end + 1));
  }
  return names;
}

ThoughtSplitter::ThoughtSplitter(Mode mode, ThoughtForm form)
    : form_(form),
      state_(mode == Mode::kOff      ? State::kAnswer
             : mode == Mode::kDetect ? State::kStart
                                     : State::kThoughtStart),
      channels_(form.is_harmony ? std::make_unique<HarmonySplitter>() : nullptr) {}
ThoughtSplitter::~ThoughtSplitter() = default;
ThoughtSplitter::ThoughtSplitter(ThoughtSplitter&&) noexcept = default;

std::vector<AnswerPiece> ThoughtSplitter::feed(std::string_view text) {
  std::vector<AnswerPiece> pieces;
  if (channels_ != nullptr) {
    channels_->feed(text, pieces);
    return pieces;
  }
  pending_ += text;
  advance(pieces, false);
  return pieces;
}

std::vector<AnswerPiece> ThoughtSplitter::finish() {
  std::vector<AnswerPiece> pieces;
  if (channels_ != nullptr) {
    channels_->finish(pieces);
    return pieces;
  }
  advance(pieces, true);
  return pieces;
}

void ThoughtSplitter::advance(std::vector<AnswerPiece>& pieces, bool at_end) {
  if (state_ == State::kStart) {
    const size_t first = std::min(pending_.find_first_not_of(kThoughtSpace), pending_.size());
    const std::string_view rest = std::string_view(pending_).substr(first);
    if (rest.starts_with(form_.open)) {
      pending_.erase(0, first + form_.open.size());
      state_ = State::kThoughtStart;
    } else if (!at_end && form_.open.starts_with(rest)) {
      return;
    } else {
      state_ = State::kAnswer;
    }
  }
  if (state_ == State::kThoughtStart || state_ == State::kThought) advance_thought(pieces, at_end);
  if (state_ == State::kAnswerStart) {
    const size_t first = pending_.find_first_not_of(kThoughtSpace);
    if (first == pending_.npos) return pending_.clear();
    pending_.erase(0, first);
    state_ = State::kAnswer;
  }
  if (state_ == State::kAnswer) {
    add_piece(pieces, pending_, false);
    pending_.clear();
  }
}

void ThoughtSplitter::advance_thought(std::vector<AnswerPiece>& pieces, bool at_end) {
  if (state_ == State::kThoughtStart) {
    const size_t first = pending_.find_first_not_of(kThoughtSpace);
    if (first == pending_.npos) return pending_.clear();
    pending_.erase(0, first);
    state_ = State::kThought;
  }
  const size_t close = pending_.find(form_.close);
  std::string_view thought = std::string_view(pending_).substr(0, close);
  if (close == pending_.npos && !at_end) thought.remove_suffix(begun_tag(thought, form_.close));
  // White space may be followed by the tag.
  const size_t last = thought.find_last_not_of(kThoughtSpace);
  thought = thought.substr(0, last == thought.npos ? 0 : last + 1);
  add_piece(pieces, thought, true);
  if (close == pending_.npos) {
    pending_.erase(0, thought.size());
    return;
  }
  pending_.erase(0, close + form_.close.size());
  state_ = State::kAnswerStart;
}

bool ends_with_open_thought(std::string_view prompt, const ThoughtForm& form) {
  if (form.is_harmony) return false;
  const auto trimmed = [](std::string_view text) { return text.substr(0, text.find_last_not_of(kThoughtSpace) + 1); };
  return trimmed(prompt).ends_with(trimmed(form.open));
}

}  // namespace gabbro::text
