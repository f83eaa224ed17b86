// A tensor's history for its gradient: the node that made it, which stays after the tensor has been computed.
// Gradients themselves are taken in src/ops/grad.h.
#pragma once

#include <memory>

#include "gabbro/graph/history.h"
#include "src/graph/node.h"

namespace gabbro {

// History of a tensor that needs a gradient.
struct History {
  std::shared_ptr<Node> node;  // null: a leaf, or `freed`
  int output = 0;              // of the node
  bool freed = false;          // by backward(): the tensor's own history is gone
  // A leaf's sum of what backward() gave so far; null before. A new value of the leaf takes it over, so that it is one
  // object as long as it lives.
  std::shared_ptr<Tensor> gradient;
};

inline bool is_leaf(const Tensor& x) { return !needs_gradient(x) || x.state().history->node == nullptr; }
// f16, bf16, f32 and f64 can have a gradient.
bool is_differentiable(DType dtype);

// While it lives, the nodes of this thread count as part of a training step (Node::training).
class TrainingNodes {
 public:
  TrainingNodes();
  ~TrainingNodes();
  TrainingNodes(const TrainingNodes&) = delete;
  TrainingNodes& operator=(const TrainingNodes&) = delete;

 private:
  bool before_;
};

// An output of a node that was recorded with a history. A tensor without holders is made again, pending if its value
// was not retained.
Tensor output_of(const std::shared_ptr<Node>& node, int output);

// For a node whose gradient has not been taken yet: the inputs and outputs that its gradient rule will read, first by
// input, then by output.
std::vector<bool> read_by_gradient(const Node& node);

// Takes the history of everything that these nodes made away: they can be freed, and no gradient be taken again.
void free_history(std::span<const std::shared_ptr<Node>> nodes);

// Called by record_all: gives the outputs their history, where gradients are enabled and an input needs one.
void record_history(const std::shared_ptr<Node>& node, std::span<const Tensor> outputs);

}  // namespace gabbro
