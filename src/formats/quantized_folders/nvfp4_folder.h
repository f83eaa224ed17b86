// Matrices of NVFP4 codes with scales of 16 columns and one of the whole matrix.
#pragma once

#include "src/formats/quantized_folders/published.h"

namespace gabbro::published {

// Codes U8 [N, K / 2], two a byte, the first in the low nibble; scales F8_E4M3 [N, K / 16]; `whole` F32 of one element,
// by which the scales are multiplied, or divided (`divides`). The matrix is dequantized to bf16: our block format has
// no scale of the whole. Throws bad_input that names the tensor.
Matrix nvfp4_matrix(std::string name, const CheckpointTensor& codes, const CheckpointTensor& scales,
                    const CheckpointTensor& whole, bool divides);

}  // namespace gabbro::published
