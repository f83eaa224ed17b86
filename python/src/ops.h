// Common declarations of the op bindings. One file for each part of src/ops/ops.h.
#pragma once

#include "gabbro/ops/products.h"
#include "python/src/casters.h"
#include "src/base/error.h"
#include "src/ops/ops.h"

namespace gabbro::python {

void bind_creation(nb::module_& m);
void bind_random(nb::module_& m);
void bind_elementwise(nb::module_& m, TensorClass& tensor);
void bind_binary(nb::module_& m);
void bind_choosing(nb::module_& m, TensorClass& tensor);
void bind_reductions(nb::module_& m, TensorClass& tensor);
void bind_sorting(nb::module_& m, TensorClass& tensor);
void bind_views(nb::module_& m, TensorClass& tensor);
void bind_splits(nb::module_& m, TensorClass& tensor);
void bind_rearranging(nb::module_& m, TensorClass& tensor);
void bind_picking(nb::module_& m, TensorClass& tensor);
void bind_products(nb::module_& m, TensorClass& tensor);
void bind_networks(nb::module_& m);
void bind_norms(nb::module_& m);
void bind_windows(nb::module_& m);
void bind_losses(nb::module_& m);

using OptionalTensor = std::optional<Tensor>;

// An omitted argument is an undefined tensor.
inline Tensor or_none(const OptionalTensor& tensor) { return tensor.value_or(Tensor()); }

// ops_loss.cc. "none", "mean" or "sum", as the losses have it; throws for other names.
Reduce reduction(const char* op, const std::string& name);

// Pools take PyTorch's arguments for what they cannot do where these ask for nothing.
inline void require_floor(bool ceil_mode) {
  if (ceil_mode) throw bad_input("[pool] ceil_mode is not supported: lengths are rounded down");
}

}  // namespace gabbro::python
