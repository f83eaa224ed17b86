// The sequence breakers of DRY: texts that a repetition does not reach across, as llama.cpp and KoboldCpp have them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace gabbro::text {
class Tokenizer;
}

namespace gabbro::sampling {

// In bytes, so that looking for breakers stays quick.
inline constexpr size_t kLongestBreaker = 40;

class SequenceBreakers {
 public:
  SequenceBreakers() = default;  // none
  // Goes through the whole vocabulary. Each of `texts` is 1 to kLongestBreaker bytes long.
  SequenceBreakers(const text::Tokenizer& tokenizer, std::span<const std::string> texts);

  // The number of tokens at the end that follow the last breaker; without a breaker all.
  size_t tokens_behind_last(std::span<const int32_t> tokens) const;
  // This token contains a whole breaker.
  bool is_breaker(int32_t token) const;

 private:
  using Tail = std::vector<int32_t>;
  void add(const text::Tokenizer& tokenizer, int32_t token, const std::string& word, const std::string& breaker);

  // A token in which a breaker begins -> what has to follow it; empty if the token contains the whole breaker.
  std::unordered_map<int32_t, std::vector<Tail>> tails_;
};

}  // namespace gabbro::sampling
