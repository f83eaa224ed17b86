// Which intermediates of a training step become results of the plan that computes them, so that nothing is computed
// twice when a step is evaluated in parts. Where no node belongs to a training step there are none.
#pragma once

#include <vector>

#include "src/graph/program.h"

namespace gabbro {

struct KeptValues {
  // Of the pending tensors that the results are computed from, those that
  // - someone holds besides the nodes of this trace: the caller, or a gradient that is still to be computed;
  // - the gradient of a node will read that was not taken yet.
  std::vector<Tensor> held;
  // Outputs that such a gradient will read and nobody holds; their nodes will.
  std::vector<Tensor> left;
};

KeptValues kept_values(const Trace& traced, std::span<const Tensor> results);

}  // namespace gabbro
