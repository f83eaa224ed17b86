// A check of weights before they are used: damaged files show as NaN and infinity.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gabbro/dtype.h"

namespace gabbro {

// True when every element is a finite number. Of block formats it reads the scales and minimums alone, which decide it.
// `elements` is a multiple of the block size.
bool all_finite(DType dtype, const std::byte* source, int64_t elements);

}  // namespace gabbro
