#include "src/plan/retained_values.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "src/graph/history.h"

namespace gabbro {
namespace {

class Keeper {
 public:
  Keeper(const Trace& traced, std::span<const Tensor> results) : traced_(traced), results_(results) {
    for (const Tensor& result : results) known_.insert(&result.state());
  }

  void add_held() {
    std::unordered_map<const TensorState*, long> uses;  // by the traced nodes
    for (const std::shared_ptr<Node>& node : traced_.nodes)
      for (const Tensor& input : node->inputs)
        if (!input.has_value()) ++uses[&input.state()];
    for (const std::shared_ptr<Node>& node : traced_.nodes)
      for (const Tensor& input : node->inputs)
        if (!input.has_value() && input.use_count() > uses.at(&input.state())) held_.push_back(input);
    // An output that no traced node reads, next to one that is read.
    for (const std::shared_ptr<Node>& node : traced_.nodes) {
      for (size_t i = 0; i < node->made.size(); ++i) {
        const auto state = node->made[i].lock();
        if (state != nullptr && !uses.contains(state.get())) held_.push_back(output_of(node, static_cast<int>(i)));
      }
    }
    for (const Tensor& tensor : held_) add(tensor, kept_.held);
  }

  void add_read() {
    for (const std::shared_ptr<Node>& node : traced_.nodes)
      for (const Tensor& input : node->inputs) add_read_by(input);
    for (const Tensor& result : results_) add_read_by(result);
  }

  RetainedValues take() { return std::move(kept_); }

 private:
  void add(const Tensor& tensor, std::vector<Tensor>& to) {
    if (tensor.has_value() || !traced_.first_outputs.contains(tensor.state().node.get())) return;
    if (known_.insert(&tensor.state()).second) to.push_back(tensor);
  }

  void add_read_by(const Tensor& made) {
    if (made.has_value() || !needs_gradient(made)) return;
    const std::shared_ptr<Node>& node = made.state().history->node;
    if (node == nullptr || node->differentiated || !asked_.insert(node.get()).second) return;
    const std::vector<bool> read = read_by_gradient(*node);
    const size_t inputs = node->inputs.size();
    for (size_t i = 0; i < inputs; ++i)
      if (read[i]) add(node->inputs[i], kept_.held);
    for (size_t i = 0; i < node->made.size(); ++i) {
      if (!read[inputs + i]) continue;
      const bool held = !node->made[i].expired();
      add(output_of(node, static_cast<int>(i)), held ? kept_.held : kept_.left);
    }
  }

  const Trace& traced_;
  std::span<const Tensor> results_;
  std::unordered_set<const TensorState*> known_;
  std::unordered_set<const Node*> asked_;
  std::vector<Tensor> held_;
  RetainedValues kept_;
};

}  // namespace

RetainedValues retained_values(const Trace& traced, std::span<const Tensor> results) {
  Keeper keeper(traced, results);
  keeper.add_held();
  if (std::ranges::any_of(traced.nodes, &Node::training)) keeper.add_read();
  return keeper.take();
}

}  // namespace gabbro
