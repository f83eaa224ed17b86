// Speculation: likely next tokens are computed together with the last one, in one pass over the weights. The sampler
// chooses every token from the model's own logits, after the tokens that it chose before, as it does without
// speculation; a drafted token counts if it is the chosen one. So the distribution is the model's, whatever drafts
// (speculative sampling, Leviathan et al. 2023, for drafts that are certain of each token), and with a fixed seed the
// tokens equal a run without speculation.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "gabbro/engine/session.h"
#include "src/engine/runner.h"
#include "src/engine/token_tree.h"

namespace gabbro {

// How many tokens a pass drafts. A token is worth computing if the pass yields more tokens per second with it. So trees
// grow with the fixed cost of a pass, which is mostly the time for reading weights.
class DraftBudget {
 public:
  // `pass_cost`: of a pass without its tokens, in units of the cost of a token, until passes are measured.
  DraftBudget(int most, double pass_cost) : most_(most), pass_cost_(pass_cost) {}

  // `others`: tokens of other texts in the same pass.
  void begin(int depth, int64_t branches, int others = 0);
  // Adds a token that is reached with this probability.
  bool is_worth(double reach) const;
  void take(double reach);
  bool take_branch();  // false: there is no room for one
  // Takes a chain of the tokens that are worth it, at least one: to notice when the text changes.
  int take_chain();
  int depth() const { return depth_; }
  // Fraction of drafted tokens that were right, given that the ones before were.
  double right() const { return right_; }

  void seen(int drafted, int accepted);     // of the longest chain
  void passed(int tokens, double seconds);  // a pass, with that many tokens
  double pass_cost() const { return pass_cost_; }

 private:
  int most_, depth_ = 0, taken_ = 0;
  int64_t branches_ = 0;
  double expected_ = 1;  // tokens that the pass brings
  int computed_ = 1;     // tokens of the pass besides the drafted ones
  double right_ = 0.7;
  double pass_cost_;
  // Decayed sums over passes, for a line through their times: weights, tokens, seconds, products.
  double weight_ = 0, tokens_ = 0, seconds_ = 0, squares_ = 0, products_ = 0;
};

// One of several texts that a drafter continues.
struct DraftedText {
  uint64_t id;  // the same in later calls for the same text
  std::span<const int32_t> tokens;
  int count;                       // of tokens that are wanted
  std::vector<int32_t> drafted{};  // the result: `count` tokens at most
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // A chain for each text.
  virtual void propose_all(std::span<DraftedText> texts, const std::atomic<bool>* cancel);
  // No more calls concern this text.
  virtual void forget(uint64_t) {}
  // A tree of possible continuations; a chain, if the drafter has no alternatives.
  virtual TokenTree propose_tree(std::span<const int32_t> tokens, DraftBudget& budget, const std::atomic<bool>* cancel);
  // At most `count` tokens that may follow `tokens`; none without a match.
  virtual std::vector<int32_t> propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>* cancel) = 0;
  virtual int most() const = 0;  // tokens that are ever worth proposing
};

// The tokens that followed the same last tokens before (prompt lookup decoding): after the longest match of at most
// four tokens; among equal matches, the last.
class PromptLookup : public Drafter {
 public:
  explicit PromptLookup(int most) : most_(most) {}
  std::vector<int32_t> propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>* cancel) override;
  // Follows several matches, the best one furthest.
  TokenTree propose_tree(std::span<const int32_t> tokens, DraftBudget& budget,
                         const std::atomic<bool>* cancel) override;
  int most() const override { return most_; }

 private:
  int most_;
};

// The most likely tokens of a smaller model with the same vocabulary.
class DraftModel : public Drafter {
 public:
  // Throws bad_input if the vocabularies differ.
  DraftModel(std::shared_ptr<Engine> draft, const Engine& target, int most);
  std::vector<int32_t> propose(std::span<const int32_t> tokens, int count, const std::atomic<bool>* cancel) override;
  // The nodes that the model finds most likely to be reached.
  TokenTree propose_tree(std::span<const int32_t> tokens, DraftBudget& budget,
                         const std::atomic<bool>* cancel) override;
  // Computes the next tokens of all texts together.
  void propose_all(std::span<DraftedText> texts, const std::atomic<bool>* cancel) override;
  void forget(uint64_t id) override { sequences_.erase(id); }
  int most() const override { return most_; }

 private:
  Sequence& sequence_of(const DraftedText& text, const std::atomic<bool>* cancel);
  std::span<const float> logits_after(std::span<const int32_t> tokens, const std::atomic<bool>* cancel);

  Session session_;  // of trees
  Runner runner_;    // of chains
  std::map<uint64_t, Sequence> sequences_;
  int most_;
};

}  // namespace gabbro
