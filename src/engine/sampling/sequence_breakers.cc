#include "src/engine/sampling/sequence_breakers.h"

#include <algorithm>
#include <functional>

#include "src/text/tokenizer.h"

namespace gabbro::sampling {
namespace {

constexpr size_t kLongestTail = 20;  // tokens; llama.cpp compares no more

// `tail` stands in `tokens` at `begin`.
bool stands_at(std::span<const int32_t> tokens, size_t begin, std::span<const int32_t> tail) {
  return begin + tail.size() <= tokens.size() && std::equal(tail.begin(), tail.end(), tokens.begin() + begin);
}

}  // namespace

SequenceBreakers::SequenceBreakers(const text::Tokenizer& tokenizer, std::span<const std::string> texts) {
  for (int32_t token = 0; token < tokenizer.size(); ++token) {
    const std::string word = tokenizer.decode({{token}}, {.remove_special = false, .show_control = true});
    for (const std::string& breaker : texts) add(tokenizer, token, word, breaker);
  }
}

void SequenceBreakers::add(const text::Tokenizer& tokenizer, int32_t token, const std::string& word,
                           const std::string& breaker) {
  if (word.find(breaker) != std::string::npos) {
    tails_[token].emplace_back();
    return;
  }
  // Ends of the word that are beginnings of the breaker: the rest is expected in the tokens that the tokenizer gives
  // it.
  for (size_t at = word.find(breaker[0]); at != std::string::npos; at = word.find(breaker[0], at + 1)) {
    const size_t shared = word.size() - at;
    if (breaker.compare(0, shared, word, at, shared) != 0) continue;
    Tail tail = tokenizer.encode(breaker.substr(shared), {.add_special = false, .parse_special = false});
    tail.resize(std::min(tail.size(), kLongestTail));
    tails_[token].push_back(std::move(tail));
  }
}

size_t SequenceBreakers::tokens_behind_last(std::span<const int32_t> tokens) const {
  for (size_t end = tokens.size(); end > 0; --end) {
    const auto found = tails_.find(tokens[end - 1]);
    if (found == tails_.end()) continue;
    bool complete = false;
    size_t longest = 0;
    for (const Tail& tail : found->second) {
      if (!stands_at(tokens, end, tail)) continue;
      complete = true;
      longest = std::max(longest, tail.size());
    }
    if (complete) return tokens.size() - end - longest;
  }
  return tokens.size();
}

bool SequenceBreakers::is_breaker(int32_t token) const {
  const auto found = tails_.find(token);
  return found != tails_.end() && std::any_of(found->second.begin(), found->second.end(), std::mem_fn(&Tail::empty));
}

}  // namespace gabbro::sampling
