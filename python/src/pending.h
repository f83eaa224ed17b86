// Work that was recorded and not computed: what `synchronize` computes.
#pragma once

#include "python/src/bind.h"

namespace gabbro::python {

// The large results of a device that Python still holds, and those that it has dropped without reading them, as far as
// their inputs still exist. Computes both.
void compute_pending(const std::shared_ptr<Device>& device);

// How many large results are held, and how many dropped ones are known: for tests.
std::pair<size_t, size_t> pending_counts();

// The slots Py_tp_dealloc of the classes Tensor and Parameter.
destructor tensor_dealloc();
destructor parameter_dealloc();
// After all classes are bound.
void watch_pending_work();

}  // namespace gabbro::python
