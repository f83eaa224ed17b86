// Arrays of other libraries in the host's memory, by DLPack and the buffer protocol.
#pragma once

#include <nanobind/ndarray.h>

#include <optional>

#include "python/src/bind.h"

namespace gabbro::python {

using HostArray = nb::ndarray<nb::ro, nb::device::cpu>;

struct DLPackType {
  nb::dlpack::dtype_code code;
  uint8_t bits;
};

// None for block formats.
std::optional<DLPackType> dlpack_type(DType dtype);

// A tensor on the wanted device: in the array's memory if `wanted` and the device allow it, else a copy. Throws
// bad_input if it may not be copied, and TypeError for elements that no dtype has.
Tensor from_array(const HostArray& array, const Wanted& wanted);

}  // namespace gabbro::python
