// Chooses the intermediates of a training step that become results of its plan, so that nothing is computed twice when
// a step is evaluated in parts. There are none if no node belongs to a training step.
#pragma once

#include <vector>

#include "src/plan/program.h"

namespace gabbro {

struct RetainedValues {
  // Pending tensors that the results are computed from, and that
  // - someone holds besides the nodes of this trace: the caller, or a gradient that is still to be computed;
  // - the gradient of a node will read that was not taken yet.
  std::vector<Tensor> held;
  // Outputs that such a gradient will read and no one holds; their nodes will.
  std::vector<Tensor> left;
};

RetainedValues retained_values(const Trace& traced, std::span<const Tensor> results);

}  // namespace gabbro
