// Scores of tokens in the forms of the dialects.
#pragma once

#include <span>

#include "gabbro/engine/sampler.h"
#include "src/server/json/request_json.h"

namespace gabbro::text {
class Tokenizer;  // src/text/tokenizer.h
}

namespace gabbro::server {

// [{"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}]}], as chat of OpenAI and Ollama have
// it. "bytes" are the token's, which may end within a character; "token" has U+FFFD there.
Json token_scores(const text::Tokenizer& tokenizer, std::span<const TokenScore> scores);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of OpenAI's completions. A token that is not UTF-8 is
// spelled "bytes:\xe2\x82"; offsets are in characters.
class CompletionScores {
 public:
  CompletionScores(const text::Tokenizer& tokenizer, int64_t offset) : tokenizer_(tokenizer), offset_(offset) {}

  void add_first(int32_t token);  // of an echo: nothing precedes it, so it has no score
  void add(const TokenScore& score);
  int64_t offset() const { return offset_; }  // of the next token
  Json take();

 private:
  void add_token(int32_t token);

  const text::Tokenizer& tokenizer_;
  int64_t offset_;
  Json tokens_ = Json::array(), logprobs_ = Json::array(), tops_ = Json::array(), offsets_ = Json::array();
};

}  // namespace gabbro::server
