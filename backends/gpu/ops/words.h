// Ops that move elements without looking at them have kernels by the size of an element.
#pragma once

#include <string>

#include "gabbro/dtype.h"

namespace gabbro::gpu {

constexpr uint32_t kElementThreads = 256;  // of a block of the kernels that give each thread an element

// "u32" for i32, f32: the suffix of the kernels' names. `dtype` is a plain one.
inline std::string word_name(DType dtype) { return "u" + std::to_string(dtype_bytes(dtype, 1) * 8); }

}  // namespace gabbro::gpu
