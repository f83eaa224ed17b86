// Reading a kernel request: attributes, shapes and strides. Compiled once, for no particular instruction set.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "gabbro/backend_abi.h"

namespace gabbro::cpu {

int64_t integer_attribute(const abi::KernelRequest& request, const char* name, int64_t otherwise);
double real_attribute(const abi::KernelRequest& request, const char* name, double otherwise);

int64_t elements(const abi::TensorView& view);
bool is_contiguous(const abi::TensorView& view);

// Whether `view` is a plain strided tensor of this type.
bool is_plain(const abi::TensorView& view, DType dtype);

// Whether `view` is contiguous, of this type and this shape.
bool has_shape(const abi::TensorView& view, DType dtype, std::initializer_list<int64_t> shape);

// Whether the request has this many inputs and outputs, all with ranks, shapes and layouts that make sense.
bool has_operands(const abi::KernelRequest& request, int inputs, int outputs);

bool same_shape(const abi::TensorView& a, const abi::TensorView& b);

}  // namespace gabbro::cpu
