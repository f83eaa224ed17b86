// Speculation: tokens that are likely to come are computed together with the last one, in one pass over the weights.
// The sampler chooses every token from the model's own logits, after the tokens that it chose before, as it does
// without speculation; a drafted token counts if it is the one chosen. So the distribution is the model's, whatever
// drafts (speculative sampling, Leviathan et al. 2023, for drafts that are certain of each token), and with one seed
// the tokens are those of a run without.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gabbro/engine/session.h"

namespace gabbro {

class Drafter {
 public:
  virtual ~Drafter() = default;
  // At most `count` tokens that may follow `tokens`; none where it has no idea.
  virtual std::vector<int32_t> propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>* cancel) = 0;
  virtual int most() const = 0;  // tokens that are ever worth proposing
};

// The tokens that followed the same last tokens before (prompt lookup decoding): those of the longest match of at most
// four tokens, and of several the last one.
class PromptLookup : public Drafter {
 public:
  explicit PromptLookup(int most) : most_(most) {}
  std::vector<int32_t> propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>* cancel) override;
  int most() const override { return most_; }

 private:
  int most_;
};

// The most likely tokens of a smaller model with the same vocabulary.
class DraftModel : public Drafter {
 public:
  // Throws bad_input where the vocabularies differ.
  DraftModel(std::shared_ptr<Engine> draft, const Engine& target, int most);
  std::vector<int32_t> propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>* cancel) override;
  int most() const override { return most_; }

 private:
  Session session_;
  int most_;
};

// How many tokens to draft: the share of drafts that were right so far says how many are likely to be.
class DraftLength {
 public:
  explicit DraftLength(int most) : most_(most) {}
  int next() const;
  void seen(int drafted, int accepted);

 private:
  int most_;
  double right_ = 0.7;  // of a drafted token, given that those before it were
};

}  // namespace gabbro
