#include "src/server/answer/score_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "src/text/tokenizer.h"
#include "src/text/unicode/utf8_stream.h"

namespace gabbro::server {
namespace {

constexpr float kLeastLogprob = -9999;  // OpenAI's number for impossible tokens: JSON has no infinity

std::string_view bytes_of(const text::Tokenizer& tokenizer, int32_t token) {
  return token >= 0 && token < tokenizer.size() ? tokenizer.piece(token) : std::string_view();
}

std::string characters_of(std::string_view bytes) {
  text::Utf8Stream characters;
  const std::string text = characters.push(bytes);
  return text + characters.flush();
}

Json score_of_token(const text::Tokenizer& tokenizer, int32_t token, float logprob) {
  const std::string_view bytes = bytes_of(tokenizer, token);
  Json numbers = Json::array();
  for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
  return {
      {"token", characters_of(bytes)}, {"logprob", std::max(logprob, kLeastLogprob)}, {"bytes", std::move(numbers)}};
}

std::string spelled_token(const text::Tokenizer& tokenizer, int32_t token) {
  const std::string_view bytes = bytes_of(tokenizer, token);
  std::string text = characters_of(bytes);
  if (text == bytes) return text;
  text = "bytes:";
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

Json token_scores(const text::Tokenizer& tokenizer, std::span<const TokenScore> scores) {
  Json rows = Json::array();
  for (const TokenScore& score : scores) {
    Json row = score_of_token(tokenizer, score.token, score.logprob);
    Json& top = row["top_logprobs"] = Json::array();
    for (const auto& [token, logprob] : score.top) top.push_back(score_of_token(tokenizer, token, logprob));
    rows.push_back(std::move(row));
  }
  return rows;
}

void CompletionScores::add_token(int32_t token) {
  tokens_.push_back(spelled_token(tokenizer_, token));
  offsets_.push_back(offset_);
  if (token < tokenizer_.size() && tokenizer_.is_control(token)) return;  // no text shows it
  const auto begins_character = [](char byte) { return (byte & 0xC0) != 0x80; };
  offset_ += std::ranges::count_if(bytes_of(tokenizer_, token), begins_character);
}

void CompletionScores::add_first(int32_t token) {
  add_token(token);
  logprobs_.push_back(nullptr);
  tops_.push_back(nullptr);
}

void CompletionScores::add(const TokenScore& score) {
  add_token(score.token);
  logprobs_.push_back(std::max(score.logprob, kLeastLogprob));
  Json top = Json::object();
  for (const auto& [token, logprob] : score.top)
    top.emplace(spelled_token(tokenizer_, token), std::max(logprob, kLeastLogprob));
  top.emplace(spelled_token(tokenizer_, score.token), std::max(score.logprob, kLeastLogprob));
  tops_.push_back(std::move(top));
}

Json CompletionScores::take() {
  return {{"tokens", std::move(tokens_)},
          {"token_logprobs", std::move(logprobs_)},
          {"top_logprobs", std::move(tops_)},
          {"text_offset", std::move(offsets_)}};
}

}  // namespace gabbro::server
