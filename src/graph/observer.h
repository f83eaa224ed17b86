// Observes which large ops are recorded, and what is evaluated: a program whose user waits for pending work
// (gabbro.synchronize).
#pragma once

#include "src/graph/node.h"

namespace gabbro {

// An op is large where it reads or writes a tensor of at least this many elements; others take a few microseconds.
inline constexpr int64_t kLargeElements = 4096;

struct Observer {
  void (*recorded)(const std::shared_ptr<Node>& node, std::span<const Tensor> outputs);  // a large op
  void (*evaluated)(std::span<const Node* const> nodes);                                 // about to be computed
  void (*stored)(const std::shared_ptr<TensorState>& state);  // has its value now, which may be in an input's memory
};

// Null: none. Set once, before anything is recorded.
void set_observer(const Observer* observer);
const Observer* observer();

}  // namespace gabbro
