// A tensor's history for its gradient: the node that made it, which stays after the tensor has been computed.
// Gradients themselves are taken in src/ops/grad.h.
#pragma once

#include <memory>

#include "src/graph/node.h"

namespace gabbro {

// History of a tensor that needs a gradient.
struct History {
  std::shared_ptr<Node> node;  // null: a leaf, or `freed`
  int output = 0;              // of the node
  bool freed = false;          // by backward(): the tensor's own history is gone
  Tensor gradient;             // of a leaf: what backward() has summed up so far; undefined before
};

// Makes x, which nothing that needs a gradient was computed from, a leaf: what is computed from it from now on needs a
// gradient. Throws bad_input "[requires_grad] ..." for integers, bool, quantized and packed tensors, and for a tensor
// that has a history.
void require_gradient(const Tensor& x);
inline bool needs_gradient(const Tensor& x) { return x.state().history != nullptr; }
inline bool is_leaf(const Tensor& x) { return !needs_gradient(x) || x.state().history->node == nullptr; }
// f16, bf16, f32 and f64 can have a gradient.
bool is_differentiable(DType dtype);

// Whether histories are recorded in this thread; they are, unless a NoGrad lives.
bool gradients_enabled();

// Sets that for as long as it lives.
class GradientMode {
 public:
  explicit GradientMode(bool enabled);
  ~GradientMode();
  GradientMode(const GradientMode&) = delete;
  GradientMode& operator=(const GradientMode&) = delete;

 private:
  bool before_;
};
struct NoGrad : GradientMode {
  NoGrad() : GradientMode(false) {}
};

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
