// Traces of small graphs for eval, which becomes a lookup in the cache of plans.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "src/graph/history.h"
#include "src/plan/key_writer.h"
#include "src/plan/program.h"

namespace gabbro {
namespace {

// Numbers by the addresses of nodes and tensors: a few are looked for one by one, more in a hash table.
class NumberTable {
 public:
  // -1 where it is new. The reference is valid until the next call.
  int& find_or_add(const void* key) {
    if (is_hashed_) return find_or_add_hashed(key);
    for (size_t i = 0; i < count_; ++i) {
      if (few_[i].key == key) return few_[i].number;
    }
    if (count_ < few_.size()) {
      few_[count_] = {key, -1};
      return few_[count_++].number;
    }
    is_hashed_ = true;
    if (entries_.empty()) entries_.resize(256);
    for (const Entry& entry : few_) slot(entry.key) = entry;
    return find_or_add_hashed(key);
  }

  // Keeps the memory of the hash table, unless a large graph took much of it.
  void clear() {
    constexpr size_t kMostCleared = 2048;
    if (is_hashed_ && entries_.size() <= kMostCleared) {
      std::ranges::fill(entries_, Entry{});
    } else if (is_hashed_) {
      entries_ = {};
    }
    is_hashed_ = false;
    count_ = 0;
  }

 private:
  struct Entry {
    const void* key = nullptr;
    int number = 0;
  };

  int& find_or_add_hashed(const void* key) {
    if (2 * (count_ + 1) > entries_.size()) {
      std::vector<Entry> before(2 * entries_.size());
      std::swap(before, entries_);
      for (const Entry& entry : before) {
        if (entry.key != nullptr) slot(entry.key) = entry;
      }
    }
    Entry& entry = slot(key);
    if (entry.key == nullptr) {
      entry = {key, -1};
      ++count_;
    }
    return entry.number;
  }

  Entry& slot(const void* key) {
    const uint64_t hash = reinterpret_cast<uintptr_t>(key) * 0x9e3779b97f4a7c15u;
    size_t at = hash >> 32 & (entries_.size() - 1);
    while (entries_[at].key != nullptr && entries_[at].key != key) at = (at + 1) & (entries_.size() - 1);
    return entries_[at];
  }

  std::array<Entry, 24> few_;
  std::vector<Entry> entries_;  // a power of two
  bool is_hashed_ = false;
  size_t count_ = 0;
};

// Its tables and lists keep their memory from graph to graph of a thread.
class InlineTracer {
 public:
  std::optional<InlineTrace> run(std::span<const Tensor> results) {
    scratch_.nodes.clear();
    scratch_.numbers.clear();
    scratch_.uses.clear();
    scratch_.key.restart();
    if (!find_nodes(results)) return std::nullopt;
    std::ranges::sort(scratch_.nodes, {}, &Node::sequence);
    for (size_t i = 0; i < scratch_.nodes.size(); ++i) number_of(scratch_.nodes[i]) = static_cast<int>(i);
    add_unread();
    constexpr size_t kUsualParameters = 8;
    traced_.parameters.reserve(kUsualParameters);
    scratch_.key.number(SIZE_MAX);  // no program has as many parameters
    scratch_.key.number(scratch_.nodes.size());
    if (!write_nodes()) return std::nullopt;
    for (const Tensor& result : results) write_result(result);
    for (const Tensor& held : traced_.held) write_result(held);
    traced_.key = scratch_.key.view();
    traced_.nodes = scratch_.nodes;
    return std::move(traced_);
  }

 private:
  static constexpr size_t kMostNodes = 4096, kMostParameters = 4096;
  static constexpr int kTaken = std::numeric_limits<int>::max();  // uses of what is a result already

  struct Scratch {
    std::vector<const Node*> nodes;
    NumberTable numbers;  // of nodes and of tensors that are parameters
    NumberTable uses;     // of pending tensors by these nodes
    KeyWriter key;
  };

  int& number_of(const void* key) { return scratch_.numbers.find_or_add(key); }
  int& uses_of(const TensorState& state) { return scratch_.uses.find_or_add(&state); }

  // Whether no other than the one node that reads it holds it.
  static bool is_passed_on(const Tensor& input) { return input.sole_owner() && input.state().node->made.empty(); }

  // Whether its gradient is still to be taken, which may read values that nothing else holds.
  static bool waits_for_gradient(const Tensor& made) {
    if (!needs_gradient(made)) return false;
    const std::shared_ptr<Node>& node = made.state().history->node;
    return node != nullptr && !node->differentiated;
  }

  bool add_node(const Node* node) {
    int& number = number_of(node);
    if (number >= 0) return true;
    number = 0;
    scratch_.nodes.push_back(node);
    is_training_ |= node->training;
    return scratch_.nodes.size() <= kMostNodes;
  }

  bool find_nodes(std::span<const Tensor> results) {
    std::vector<const Node*>& nodes = scratch_.nodes;
    bool waits = false;
    for (const Tensor& result : results) {
      if (!result.defined() || result.has_value() || !add_node(result.state().node.get())) return false;
      uses_of(result.state()) = kTaken;
      waits |= waits_for_gradient(result);
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const Tensor& input : nodes[i]->inputs) {
        if (input.has_value()) continue;
        if (input.state().node->deferred || !add_node(input.state().node.get())) return false;
        waits |= waits_for_gradient(input);
        if (is_passed_on(input)) continue;
        int& count = uses_of(input.state());
        if (count != kTaken) count = std::max(count, 0) + 1;
      }
    }
    return !(waits && is_training_);
  }

  // Outputs that none of the nodes reads, next to one that is read.
  void add_unread() {
    for (const Node* const node : scratch_.nodes) {
      for (const std::weak_ptr<TensorState>& made : node->made) {
        const std::shared_ptr<TensorState> state = made.lock();
        if (state == nullptr || uses_of(*state) >= 0) continue;
        uses_of(*state) = kTaken;
        traced_.held.emplace_back(state);
      }
    }
  }

  // A tensor that others than the nodes hold is a result, too.
  void add_held(const Tensor& input) {
    if (is_passed_on(input)) return;
    int& count = uses_of(input.state());
    if (count == kTaken || input.use_count() <= count) return;
    count = kTaken;
    traced_.held.push_back(input);
  }

  bool write_nodes() {
    for (const Node* const node : scratch_.nodes) {
      scratch_.key.operation(node->op, node->attributes);
      scratch_.key.number(node->inputs.size());
      for (const Tensor& input : node->inputs) {
        if (!input.has_value()) {
          write_result(input);
          add_held(input);
        } else if (!write_parameter(input)) {
          return false;
        }
      }
    }
    return true;
  }

  bool write_parameter(const Tensor& input) {
    int& number = number_of(&input.state());
    const bool is_known = number >= 0;
    if (!is_known) number = static_cast<int>(traced_.parameters.size());
    scratch_.key.number(number);
    scratch_.key.number(-1);
    if (is_known) return true;
    scratch_.key.tensor(input.spec(), input.state().layout.strides);
    traced_.parameters.push_back(input);
    return traced_.parameters.size() <= kMostParameters;
  }

  void write_result(const Tensor& tensor) {
    scratch_.key.number(number_of(tensor.state().node.get()));
    scratch_.key.number(tensor.state().output);
  }

  static Scratch& scratch() {
    thread_local Scratch of_thread;
    return of_thread;
  }

  Scratch& scratch_ = scratch();
  InlineTrace traced_;
  bool is_training_ = false;
};

}  // namespace

std::optional<InlineTrace> trace_inline(std::span<const Tensor> results) { return InlineTracer().run(results); }

}  // namespace gabbro
