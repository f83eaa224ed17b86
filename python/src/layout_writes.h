// The view ops between two tensors, and writes to the elements that a view shows.
#pragma once

#include <memory>
#include <vector>

#include "gabbro/tensor/tensor.h"
#include "src/graph/node.h"
#include "src/tensor/shape.h"

namespace gabbro::python {

// The view ops that make one tensor from another one, the first one first; empty where there are others.
std::vector<std::shared_ptr<Node>> steps_between(const Tensor& from, const Tensor& to);
// Whether two places of the layout are one element.
bool repeats_elements(const Layout& layout);
// The root's value with the elements of the layout replaced by `value`'s. Throws bad_input "[op] ..." for a root with
// more elements than 32 bits count.
Tensor with_elements(const char* op, const Tensor& root, const Layout& layout, const Tensor& value);

}  // namespace gabbro::python
