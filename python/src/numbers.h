// Python's numbers in dtypes that hold them (operand.cc).
#pragma once

#include "python/src/bind.h"

namespace gabbro::python {

// Whether an integer dtype holds the value; true for bool and floats.
bool holds(DType dtype, int64_t value);

// The number, if the dtype holds it: an integer dtype holds neither larger integers nor larger floats. Throws
// OverflowError.
const Number& held(const char* op, const Number& number, DType dtype);

// int32, or int64 for values beyond it; bool and float32 for numbers of these kinds.
DType dtype_of(const Number& number);

}  // namespace gabbro::python
