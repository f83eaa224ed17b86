// Matrices of MXFP4 codes, two a byte, the first in the low nibble.
#pragma once

#include "src/formats/quantized_folders/published.h"

namespace gabbro::published {

// `codes` has 16 bytes, and `scales` an exponent biased by 127, for each 32 elements of `shape`.
Matrix mxfp4_matrix(std::string name, const CheckpointTensor& codes, const CheckpointTensor& scales,
                    std::vector<int64_t> shape);

}  // namespace gabbro::published
