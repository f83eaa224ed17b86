// A matrix of a checkpoint with rows and columns exchanged.
#pragma once

#include "src/formats/checkpoint.h"

namespace gabbro {

// [R, C] to [C, R]; the bytes are made when they are first read. Quantized matrices become f32. Throws bad_input that
// names the tensor if it is not a matrix.
CheckpointTensor transposed_tensor(const CheckpointTensor& tensor);

}  // namespace gabbro
