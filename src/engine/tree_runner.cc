// A pass over a tree of tokens. Its branches are sequences that share the pages of the text; a token that several of
// them have is computed once, and its keys and values are written to each. So attention needs no other mask.
#include "src/engine/tree_runner.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>

#include "src/base/error.h"
#include "src/engine/engine_state.h"
#include "src/engine/page_tables.h"

namespace gabbro {
namespace {

constexpr int32_t kNowhere = -1;  // the sequence of padding

// Tokens that are computed, or rows that are written, with their places.
struct PlacedValues {
  std::vector<int32_t> values, positions, sequences;

  void add(int32_t value, int64_t position, size_t sequence) {
    values.push_back(value);
    positions.push_back(static_cast<int32_t>(position));
    sequences.push_back(static_cast<int32_t>(sequence));
  }
  // Trees of similar sizes share plans.
  void pad(size_t multiple) {
    while (values.size() % multiple != 0) {
      values.push_back(0);
      positions.push_back(0);
      sequences.push_back(kNowhere);
    }
  }
  int64_t count() const { return std::ssize(values); }
};

Tensor upload_list(Device& device, const std::vector<int32_t>& values) {
  return device.upload(DType::i32, Shape{std::ssize(values)}, values.data());
}

}  // namespace

int64_t TreeRunner::branch_room() const {
  Engine::State& shared = *runner_.engine_->state_;
  const std::lock_guard lock(shared.mutex);
  if (!shared.loaded.model->takes_copies()) return 0;
  constexpr int64_t kPagesOfABranch = 2;  // a copy of the last one, and the next
  const PagePool& fewest = *std::ranges::min_element(shared.cache.pools, {}, &PagePool::available);
  // The sequence itself is a branch, too. The others are cut, in the end.
  return std::clamp<int64_t>(fewest.available() / kPagesOfABranch - 1, 0,
                             std::max<int64_t>(shared.cache.longest_cut(), 0));
}

std::span<const float> TreeRunner::step(Sequence& sequence, std::span<const int32_t> tokens, const TokenTree& tree,
                                        const std::atomic<bool>* cancel) {
  other_branches_.clear();
  paths_.clear();
  for (const int32_t leaf : tree.leaves()) paths_.push_back(tree.path(leaf));
  if (paths_.empty()) paths_.emplace_back();
  runner_.restore(sequence, cancel);
  other_branches_.reserve(paths_.size());
  for (size_t b = 1; b < paths_.size(); ++b) other_branches_.push_back(sequence);
  try {
    return run(sequence, tokens, tree, cancel);
  } catch (...) {
    other_branches_.clear();
    throw;
  }
}

std::span<const float> TreeRunner::run(Sequence& sequence, std::span<const int32_t> tokens, const TokenTree& tree,
                                       const std::atomic<bool>* cancel) {
  Engine::State& shared = *runner_.engine_->state_;
  const std::lock_guard lock(shared.mutex);
  shared.loaded.set_rotation(sequence.rotation_);
  std::vector<std::vector<int32_t>> texts;  // of each branch, after what the sequence holds
  for (const std::vector<int32_t>& path : paths_) {
    texts.emplace_back(tokens.begin(), tokens.end());
    for (const int32_t node : path) texts.back().push_back(tree.nodes[static_cast<size_t>(node)].token);
    check_room(*runner_.engine_, std::ssize(sequence.tokens_), texts.back());
  }
  const auto branch = [&](size_t b) -> Sequence& { return b == 0 ? sequence : other_branches_[b - 1]; };
  try {
    // The sequence itself last: its last page belongs to it alone then, and is not copied.
    for (size_t b = texts.size(); b-- > 0;) branch(b).take_pages(std::ssize(sequence.tokens_) + std::ssize(texts[b]));
    std::vector<const Sequence*> branches;
    for (size_t b = 0; b < texts.size(); ++b) branches.push_back(&branch(b));
    const auto rows = std::ssize(tokens) + std::ssize(tree.nodes);
    const std::span<const float> logits = runner_.host(forward(branches, tokens, tree, cancel), rows, cancel);
    shared.loaded.files.require_unchanged();
    for (size_t b = 0; b < texts.size(); ++b) {
      branch(b).tokens_.insert(branch(b).tokens_.end(), texts[b].begin(), texts[b].end());
      branch(b).computed_ = std::ssize(branch(b).tokens_);
    }
    return logits;
  } catch (...) {
    for (size_t b = 0; b < texts.size(); ++b) branch(b).release_pages(branch(b).computed_);
    throw;
  }
}

Tensor TreeRunner::forward(std::span<const Sequence* const> branches, std::span<const int32_t> tokens,
                           const TokenTree& tree, const std::atomic<bool>* cancel) {
  Engine::State& shared = *runner_.engine_->state_;
  Device& device = *shared.loaded.device;
  shared.plans.queued = {};
  const int64_t before = std::ssize(branches.front()->tokens_), first_node = std::ssize(tokens);
  PlacedValues computed, written;
  for (int64_t i = 0; i < first_node; ++i) computed.add(tokens[static_cast<size_t>(i)], before + i, 0);
  std::vector<int64_t> depth(tree.nodes.size());
  for (size_t i = 0; i < depth.size(); ++i) {
    const TokenTree::Node& node = tree.nodes[i];
    depth[i] = node.parent < 0 ? 0 : depth[static_cast<size_t>(node.parent)] + 1;
    computed.add(node.token, before + first_node + depth[i], 0);
  }
  for (size_t b = branches.size(); b-- > 0;) {
    for (int64_t i = 0; i < first_node; ++i) written.add(static_cast<int32_t>(i), before + i, b);
    for (const int32_t node : paths_[b]) {
      const auto row = static_cast<size_t>(first_node + node);
      written.add(static_cast<int32_t>(row), computed.positions[row], b);
      computed.sequences[row] = static_cast<int32_t>(b);  // one that has all that is before it
    }
  }
  constexpr size_t kComputedMultiple = 8, kWrittenMultiple = 16;
  computed.pad(kComputedMultiple);
  written.pad(kWrittenMultiple);
  std::vector<int32_t> rows;
  for (int64_t row = 0; row < computed.count(); ++row) rows.push_back(static_cast<int32_t>(row));
  const std::vector<Tensor> tables = upload_tables(device, shared.cache, branches, std::bit_ceil(branches.size()));
  const auto places = [&](const PlacedValues& of) {
    return TokenPositions{.positions = upload_list(device, of.positions),
                          .sequence = upload_list(device, of.sequences),
                          .page_table = tables.front(),
                          .slots = {}};
  };
  const llm::Step step = {.ids = upload_list(device, computed.values),
                          .places = places(computed),
                          .page_tables = tables,
                          .output_rows = upload_list(device, rows),
                          .copies = {.rows = upload_list(device, written.values), .places = places(written)}};
  return runner_.pass_.run(std::span(&step, 1), cancel);
}

void TreeRunner::keep_branch(Sequence& sequence, std::span<const int32_t> tokens, int32_t node) {
  const int64_t before = std::ssize(sequence.tokens_) - std::ssize(paths_.front()) - std::ssize(tokens);
  int64_t kept = 0;
  for (size_t b = 0; b < paths_.size() && kept == 0; ++b) {
    const auto found = std::ranges::find(paths_[b], node);
    if (found == paths_[b].end()) continue;
    kept = found - paths_[b].begin() + 1;
    if (b > 0) {
      Sequence& other = other_branches_[b - 1];
      std::swap(sequence.tokens_, other.tokens_);
      std::swap(sequence.pages_, other.pages_);
      std::swap(sequence.prefixes_, other.prefixes_);
      std::swap(sequence.computed_, other.computed_);
    }
  }
  sequence.truncate(before + std::ssize(tokens) + kept);
  other_branches_.clear();
  const std::lock_guard lock(runner_.engine_->state_->mutex);
  sequence.computed(0);
}

}  // namespace gabbro
