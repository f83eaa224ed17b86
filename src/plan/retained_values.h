// Chooses the intermediates that become results of a plan, so that nothing is computed twice when a graph is evaluated
// in parts: values that someone holds, and values that a pending gradient reads.
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
