// Common declarations of x[...] = value.
#pragma once

#include "python/src/bind.h"

namespace gabbro::python {

bool is_tracing();  // compile.cc

// Does x[object] = value at once, where x is in memory of the host, needs no gradient, and value is a number or a
// tensor of x's dtype with a value. False where it is not so, or the indices are not integers and slices within x.
bool assign_in_place(nb::handle self, nb::handle object, nb::handle value);

// Between tensors with values in memory of the host, of one shape and dtype.
void copy_elements(const TensorState& from, const TensorState& to);
Tensor copy_in_memory(const Tensor& x);  // contiguous

}  // namespace gabbro::python
