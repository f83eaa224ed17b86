// Passes over trees of drafted tokens, of a sequence of a Runner.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "src/engine/runner.h"
#include "src/engine/token_tree.h"

namespace gabbro {

class TreeRunner {
 public:
  explicit TreeRunner(Runner& runner) : runner_(runner) {}

  // Branches of a tree, besides the first, for which there are pages; 0 where the model has no trees.
  int64_t branch_room() const;
  // Appends `tokens`, and after them all branches of the tree, in one pass. Returns logits [tokens + nodes, V], the
  // tokens' rows first, valid until the next step of the runner. The sequence holds one of the branches then;
  // keep_branch() with the same tokens has to follow. Throws as Runner::step() does.
  std::span<const float> step(Sequence& sequence, std::span<const int32_t> tokens, const TokenTree& tree,
                              const std::atomic<bool>* cancel);
  // Keeps the nodes of the tree up to this one; -1: none.
  void keep_branch(Sequence& sequence, std::span<const int32_t> tokens, int32_t node);

 private:
  std::span<const float> run(Sequence& sequence, std::span<const int32_t> tokens, const TokenTree& tree,
                             const std::atomic<bool>* cancel);
  Tensor forward(std::span<const Sequence* const> branches, std::span<const int32_t> tokens, const TokenTree& tree,
                 const std::atomic<bool>* cancel);

  Runner& runner_;
  // The tree that was computed last: its branches besides the first, and the nodes of all.
  std::vector<Sequence> other_branches_;
  std::vector<std::vector<int32_t>> paths_;
};

}  // namespace gabbro
