// The steps that change logits by what has been said so far. The history is that of one sequence.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "gabbro/sampling_options.h"
#include "src/engine/sampling/sequence_breakers.h"

namespace gabbro::sampling {

class History {
 public:
  // `window`: how many of the last tokens count() sees; -1: all.
  explicit History(int window) : window_(window) {}

  void accept(int32_t token);
  const std::unordered_map<int32_t, int>& counts() const { return counts_; }  // within the window, each at least 1
  std::span<const int32_t> tokens() const { return tokens_; }

 private:
  int window_;
  std::vector<int32_t> tokens_;
  std::unordered_map<int32_t, int> counts_;
};

// For each token in the window: a positive logit is divided by repeat_penalty and another multiplied by it (Keskar et
// al. 2019, with the sign minded), then frequency_penalty · count + presence_penalty is taken off (OpenAI).
void penalize_counts(std::span<float> logits, const History& history, const SamplerOptions& options);

// DRY: a token that would continue a repetition of n >= dry_allowed_length tokens that end the text now loses
// dry_multiplier · dry_base^(n - dry_allowed_length). Only tokens behind the last of `breakers` count for n, and a
// token that holds one loses nothing. Linear in the history (Z-algorithm on the reversed text).
void penalize_repetition(std::span<float> logits, const History& history, const SequenceBreakers& breakers,
                         const SamplerOptions& options);

// A step of the chain that changes logits.
struct Penalty {
  bool (*is_on)(const SamplerOptions& options);
  void (*apply)(std::span<float> logits, const History& history, const SequenceBreakers& breakers,
                const SamplerOptions& options);
  bool on_device = false;  // the op `sampling` has it; else the host chooses the tokens of rows that use it
};

// All steps, in the order of the chain.
std::span<const Penalty> penalties();

// Whether the options weight tokens by how often they occur in the penalty window.
bool penalizes_counts(const SamplerOptions& options);

}  // namespace gabbro::sampling
