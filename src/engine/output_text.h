// The text of an answer, as its tokens come.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gabbro/engine/generate.h"
#include "src/text/stop_matcher.h"
#include "src/text/tokenizer.h"
#include "src/text/unicode/utf8_stream.h"

namespace gabbro {

// Tokens become bytes, bytes become whole characters, and characters pass once no stop text can begin in them.
class OutputText {
 public:
  using OnScores = std::function<void(std::span<const TokenScore>)>;

  OutputText(const text::Tokenizer& tokenizer, const GenerateOptions& options,
             const std::function<void(std::string_view)>& on_text);

  // False when a stop text was completed. `may_stop` false: stop texts are not looked for. A score is null or the
  // token's.
  bool add(int32_t token, bool may_stop, const TokenScore* score);

  std::string finish();

  // The stop text that was completed; "": none.
  std::string stop_text() const;

  void listen_to_scores(OnScores on_scores) { on_scores_ = std::move(on_scores); }
  std::vector<TokenScore> take_scores() { return std::move(scores_); }

 private:
  struct Scored {
    TokenScore score;
    size_t begin, end;  // of its text in the text of all tokens
  };

  std::string decoded(std::string text);

  void pass(std::string text);

  // The first `count` of waiting_ are passed on.
  void release(size_t count);

  const text::Tokenizer& tokenizer_;
  text::TokenStream characters_;
  std::optional<text::StopMatcher> stops_;
  bool has_control_stops_ = false;  // control tokens are searched for, though they are never shown
  const std::function<void(std::string_view)>& on_text_;
  const std::vector<std::string> named_stops_;
  std::vector<size_t> origins_;  // in named_stops_, of the matcher's stop texts
  std::set<int32_t> shown_controls_;
  std::string text_;
  size_t decoded_ = 0;           // bytes that came out of characters_
  std::vector<Scored> waiting_;  // tokens whose text is not certain yet
  std::vector<TokenScore> scores_;
  OnScores on_scores_;
};

}  // namespace gabbro
