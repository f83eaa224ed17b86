// The sampler chain: from logits to one token. Pure: its result depends only on its options, its seed and the tokens
// that it has accepted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "gabbro/sampling_options.h"

namespace gabbro {

namespace text {
class Tokenizer;  // src/text/tokenizer.h
}
namespace sampling {
struct Row;  // src/engine/sampling/row.h
}

}  // namespace gabbro

#pragma GCC visibility push(default)
namespace gabbro {

// A token's log-probability (natural logarithm) in the model's own distribution, before all steps of a sampler.
struct TokenScore {
  int32_t token = -1;
  float logprob = 0;
  std::vector<std::pair<int32_t, float>> top{};  // the most likely tokens, the first one first
};

class Sampler {
 public:
  // Throws bad_input that names the option when a value is outside its range; `vocabulary` is the number of tokens, and
  // `tokenizer` tells which of them hold DRY's sequence breakers: without it there are none.
  Sampler(const SamplerOptions& options, int64_t vocabulary, const text::Tokenizer* tokenizer = nullptr);
  ~Sampler();

  // One token for logits [V] f32. Throws failed() when no logit is a number.
  int32_t sample(std::span<const float> logits);
  // As sample(), but returns -1 when no logit is a number.
  int32_t sample_if_any(std::span<const float> logits);

  // The score of the token that was sampled last, for options with top_logprobs >= 0.
  const TokenScore& last_score() const;
  // These tokens are not chosen until the next call.
  void ban(std::vector<int32_t> tokens);
  // Only tokens whose bit is set are chosen until the next call: token t has bit t % 64 of word t / 64. Tokens without
  // a word are not chosen. Empty: all may be chosen.
  void allow(std::vector<uint64_t> words);
  // `prepare` is called once, before the next choice, and may call allow(): a device computes the logits meanwhile.
  void prepare_later(std::function<void()> prepare);
  // Whether not all tokens may be chosen, or may not after what prepare_later() took.
  bool has_mask() const;

  // Tells of a token that is now part of the context (prompt tokens too), for penalties and DRY.
  void accept(int32_t token);

  uint64_t seed() const;  // the one in use
  // Whether it always takes the largest logit, the lowest id of equals.
  bool is_greedy() const;
  // sample() of a greedy one, where the place of the largest logit is known: -1 where none is a number.
  int32_t taken(int32_t largest) const;

  // The parameters with which a device chooses the next token as sample() does; `ahead` 1: the token after that one, if
  // its choice does not depend on the one before. take_draw() has to follow when the token was chosen so. The
  // parameters of allow() are in Row::allowed; false for `takes_masks`: the device cannot choose by them.
  sampling::Row row(int ahead = 0, bool takes_masks = false) const;
  void take_draw();

 private:
  struct [[gnu::visibility("hidden")]] State;
  std::unique_ptr<State> state_;
};

}  // namespace gabbro
#pragma GCC visibility pop
