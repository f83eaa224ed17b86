#include "src/engine/output_text.h"

#include <utility>

#include "src/engine/control_codes.h"

namespace gabbro {

OutputText::OutputText(const text::Tokenizer& tokenizer, const GenerateOptions& options,
                       const std::function<void(std::string_view)>& on_text)
    : tokenizer_(tokenizer),
      characters_(tokenizer, {.continues = true}),
      on_text_(on_text),
      named_stops_(options.stop) {
  const std::vector<std::string> stops = with_control_codes(options.stop, tokenizer, origins_);
  for (const std::string& name : options.shown_controls) {
    const int32_t token = tokenizer.find(name);  // others are shown as all text is
    if (token != text::kNoToken && tokenizer.is_control(token)) shown_controls_.insert(token);
  }
  has_control_stops_ = stops.size() > options.stop.size();
  stops_.emplace(stops);
}

bool OutputText::add(int32_t token, bool may_stop, const TokenScore* score) {
  const size_t begin = decoded_;
  const bool is_control = token < tokenizer_.size() && tokenizer_.is_control(token);
  std::string text, shown;
  // The output head may have more rows than the vocabulary has tokens, to reach a round number: ids past it have no
  // text.
  if (token < tokenizer_.size() && !is_control) text = decoded(characters_.push(token));
  if (shown_controls_.contains(token)) shown = decoded(characters_.flush() + std::string(tokenizer_.piece(token)));
  if (score != nullptr) waiting_.push_back({*score, begin, decoded_});
  if (!may_stop) {
    pass(stops_->flush() + text + shown);
  } else if (is_control && has_control_stops_) {
    pass(stops_->push(decoded(characters_.flush())));
    pass(stops_->push(control_code(token)));
    if (!stops_->stopped()) pass(stops_->push(shown));
  } else {
    pass(stops_->push(text + shown));
  }
  return !stops_->stopped();
}

std::string OutputText::finish() {
  if (!stops_->stopped()) pass(stops_->push(decoded(characters_.flush())));
  if (!stops_->stopped()) pass(stops_->flush());
  // Tokens of the stop text have no scores.
  const size_t end = text_.size();
  std::erase_if(waiting_, [&](const Scored& one) { return stops_->stopped() && one.begin >= end && one.end > end; });
  release(waiting_.size());
  return std::move(text_);
}

std::string OutputText::stop_text() const {
  return stops_->stopped() ? named_stops_[origins_[static_cast<size_t>(stops_->match())]] : std::string();
}

std::string OutputText::decoded(std::string text) {
  decoded_ += text.size();
  return text;
}

void OutputText::pass(std::string text) {
  if (has_control_stops_) text = without_control_codes(std::move(text));
  if (text.empty()) return;
  text_ += text;
  size_t certain = 0;
  while (certain < waiting_.size() && waiting_[certain].end <= text_.size()) ++certain;
  release(certain);
  if (on_text_) on_text_(text);
}

void OutputText::release(size_t count) {
  if (count == 0) return;
  const size_t before = scores_.size();
  for (size_t i = 0; i < count; ++i) scores_.push_back(std::move(waiting_[i].score));
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
  if (on_scores_) on_scores_(std::span(scores_).subspan(before));
}

}  // namespace gabbro
