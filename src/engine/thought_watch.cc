#include "src/engine/thought_watch.h"

#include <utility>

namespace gabbro {

ThoughtWatch::ThoughtWatch(const ThoughtLimit& limit, const text::Tokenizer& tokenizer)
    : limit_(limit),
      tokenizer_(tokenizer),
      state_(limit.tokens < 0 ? State::kDone
             : limit.is_open  ? State::kThought
                              : State::kStart),
      has_soft_closing_(!limit.soft_closing.empty()) {}

void ThoughtWatch::follow(int32_t token, const MayFollow& may_follow) {
  if (next_ < forced_.size()) {
    ++next_;
    return;
  }
  if (state_ == State::kDone) return;
  if (state_ == State::kThought) ++tokens_;
  // The output head may have more rows than the vocabulary has tokens.
  if (token < tokenizer_.size()) read(tokenizer_.piece(token));
  begin(may_follow);
}

void ThoughtWatch::begin(const MayFollow& may_follow) {
  if (state_ != State::kThought || tokens_ < limit_.tokens) return;
  state_ = State::kDone;
  if (std::exchange(has_soft_closing_, false) && close(limit_.soft_closing, may_follow)) {
    state_ = State::kStart;
    text_.clear();
  } else if (!close(limit_.closing, may_follow)) {
    close(limit_.close, may_follow);
  }
}

// The tokens of this text come next, if they may: control tokens before their names as text.
bool ThoughtWatch::close(const std::string& closing, const MayFollow& may_follow) {
  for (const bool is_special : {true, false}) {
    std::vector<int32_t> tokens =
        tokenizer_.encode(closing, {.add_special = false, .parse_special = is_special, .threads = 1});
    if (!may_follow(tokens)) continue;
    forced_ = std::move(tokens);
    next_ = 0;
    return true;
  }
  return false;
}

void ThoughtWatch::read(std::string_view bytes) {
  text_ += bytes;
  if (state_ == State::kStart) {
    const size_t first = text_.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return;
    const std::string_view rest = std::string_view(text_).substr(first);
    if (rest.starts_with(limit_.open)) {
      text_.erase(0, first + limit_.open.size());
      state_ = State::kThought;
    } else if (!limit_.open.starts_with(rest)) {
      state_ = State::kDone;
    }
  }
  if (state_ != State::kThought) return;
  if (text_.find(limit_.close) != std::string::npos) {
    state_ = State::kDone;
  } else if (text_.size() > limit_.close.size()) {
    text_.erase(0, text_.size() - limit_.close.size());
  }
}

std::optional<int32_t> ThoughtWatch::forced() const {
  if (next_ < forced_.size()) return forced_[next_];
  return std::nullopt;
}

bool ThoughtWatch::may_force_within(int tokens) const {
  return next_ < forced_.size() || (state_ != State::kDone && tokens_ + tokens > limit_.tokens);
}

}  // namespace gabbro
