// The Tensor handle: shape, dtype, device, and either storage or a node that has not run yet. No arithmetic.
#pragma once

#include <memory>
#include <utility>

#include "gabbro/dtype.h"
#include "src/tensor/shape.h"

namespace gabbro {

class Device;    // src/backend/device.h
struct Node;     // src/graph/node.h
struct History;  // src/graph/history.h

// Properties of a tensor that are known before it has a value. A packed tensor is a matrix in its device's own
// arrangement.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::f32;
  bool packed = false;

  bool operator==(const TensorSpec&) const = default;
};

struct TensorState {
  TensorSpec spec;
  std::shared_ptr<Device> device;

  // With a value: its memory (freed with the last handle) and the layout of the elements in it.
  std::shared_ptr<void> storage;
  Layout layout;

  // Without one: the node that computes it, and which of its outputs it is.
  std::shared_ptr<Node> node;
  int output = 0;

  // For its gradient; null where it needs none.
  std::shared_ptr<History> history;
};

// A value-semantic handle: copies share the tensor, which never changes (State tensors apart).
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::shared_ptr<TensorState> state) : state_(std::move(state)) {}

  bool defined() const { return state_ != nullptr; }
  const Shape& shape() const { return state_->spec.shape; }
  DType dtype() const { return state_->spec.dtype; }
  const TensorSpec& spec() const { return state_->spec; }
  const std::shared_ptr<Device>& device() const { return state_->device; }
  bool has_value() const { return state_->node == nullptr; }
  TensorState& state() const { return *state_; }
  const std::shared_ptr<TensorState>& shared_state() const { return state_; }
  bool sole_owner() const { return state_.use_count() == 1; }

 private:
  std::shared_ptr<TensorState> state_;
};

}  // namespace gabbro
