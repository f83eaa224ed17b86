// Reading a kernel request: attributes, shapes and strides. Compiled once, for no particular instruction set.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "gabbro/backend_abi.h"

namespace gabbro::abi {

int64_t integer_attribute(const KernelRequest& request, const char* name, int64_t otherwise);
double real_attribute(const KernelRequest& request, const char* name, double otherwise);

int64_t elements(const TensorView& view);
int64_t own_elements(const TensorView& view);  // without those that are there again and again
bool is_contiguous(const TensorView& view);

// Whether `view` is a plain strided tensor of this type.
bool is_plain(const TensorView& view, DType dtype);

// Whether `view` is contiguous, of this type and this shape.
bool has_shape(const TensorView& view, DType dtype, std::initializer_list<int64_t> shape);

// Whether the request has this many inputs and outputs, all with ranks, shapes and layouts that make sense.
bool has_operands(const KernelRequest& request, int inputs, int outputs);

// Whether the outputs from `first` on are written into these inputs, and no other output is written into one.
bool has_aliases(const KernelRequest& request, int first, std::initializer_list<int> inputs);
bool has_any_alias(const KernelRequest& request);

bool same_shape(const TensorView& a, const TensorView& b);

}  // namespace gabbro::abi
