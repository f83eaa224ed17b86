// The Tensor handle: shape, dtype, device, and either a value or an op that has not run yet. No arithmetic.
#pragma once

#include <memory>
#include <utility>

#include "gabbro/dtype.h"
#include "gabbro/tensor/shape.h"

namespace gabbro {

struct Node;         // src/graph/node.h
struct History;      // src/graph/history.h
struct TensorState;  // src/tensor/tensor.h

}  // namespace gabbro

#pragma GCC visibility push(default)
namespace gabbro {

class Device;  // gabbro/device.h
using DevicePointer = std::shared_ptr<Device>;

// Properties of a tensor that are known before it has a value. A packed tensor is a matrix in its device's own
// arrangement.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::f32;
  bool packed = false;

  bool operator==(const TensorSpec&) const = default;
};

// The part of a tensor's state that its accessors read; TensorState, which is private to the library, has the rest.
struct TensorFacts {
  TensorSpec spec;
  DevicePointer device;
  std::shared_ptr<Node> node;        // the op that computes it; null: it has a value
  std::shared_ptr<History> history;  // for its gradient; null where it needs none
};

// A value-semantic handle: copies share the tensor, which never changes (states apart: see overwrite()).
class Tensor {
 public:
  Tensor() = default;  // undefined: "none" where an argument is optional

  bool defined() const { return facts_ != nullptr; }
  const Shape& shape() const { return facts_->spec.shape; }
  DType dtype() const { return facts_->spec.dtype; }
  const TensorSpec& spec() const { return facts_->spec; }
  const DevicePointer& device() const { return facts_->device; }
  bool has_value() const { return facts_->node == nullptr; }
  bool needs_gradient() const { return facts_->history != nullptr; }
  long use_count() const { return facts_.use_count(); }  // handles of this tensor
  bool sole_owner() const { return use_count() == 1; }

  // For the library: defined in src/tensor/tensor.h.
  explicit inline Tensor(std::shared_ptr<TensorState> state);
  inline TensorState& state() const;
  inline std::shared_ptr<TensorState> shared_state() const;

 private:
  std::shared_ptr<TensorFacts> facts_;
};

}  // namespace gabbro
#pragma GCC visibility pop
