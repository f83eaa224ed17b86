// Follows the thoughts of a text that is generated, and closes them when they have taken their tokens.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gabbro/engine/generate.h"
#include "src/text/tokenizer.h"

namespace gabbro {

class ThoughtWatch {
 public:
  // Nothing happens where limit.tokens is negative.
  ThoughtWatch(const ThoughtLimit& limit, const text::Tokenizer& tokenizer);

  using MayFollow = std::function<bool(std::span<const int32_t>)>;
  // Before the first token. `may_follow`: whether a grammar allows these tokens next.
  void begin(const MayFollow& may_follow);
  // The text goes on with this token.
  void follow(int32_t token, const MayFollow& may_follow);
  // The token that is next; nothing: any.
  std::optional<int32_t> forced() const;
  // Whether one of the next `tokens` tokens may be forced.
  bool may_force_within(int tokens) const;

 private:
  enum class State { kStart, kThought, kDone };
  void read(std::string_view bytes);
  bool close(const std::string& closing, const MayFollow& may_follow);

  const ThoughtLimit limit_;
  const text::Tokenizer& tokenizer_;
  State state_;
  std::string text_;       // of the state, as far as it matters
  int tokens_ = 0;         // of thoughts
  bool has_soft_closing_;  // to come
  std::vector<int32_t> forced_;
  size_t next_ = 0;  // in forced_
};

}  // namespace gabbro
