// The state behind a Tensor handle: either storage, or a node that has not run yet.
#pragma once

#include <memory>
#include <utility>

#include "gabbro/tensor/tensor.h"
#include "src/tensor/shape.h"

namespace gabbro {

// Data that a language's binding keeps with a tensor. Copies of a state do not take it along.
struct Attachment {
  std::shared_ptr<void> held;

  Attachment() = default;
  Attachment(const Attachment&) {}
  Attachment& operator=(const Attachment&) { return *this; }
};

struct TensorState : TensorFacts {
  // With a value: its memory (freed with the last handle) and the layout of the elements in it.
  std::shared_ptr<void> storage;
  Layout layout;

  int output = 0;  // without one: which output of `node` it is

  Attachment attachment;
};

inline Tensor::Tensor(std::shared_ptr<TensorState> state) : facts_(std::move(state)) {}
inline TensorState& Tensor::state() const { return static_cast<TensorState&>(*facts_); }
inline std::shared_ptr<TensorState> Tensor::shared_state() const {
  return std::static_pointer_cast<TensorState>(facts_);
}

}  // namespace gabbro
