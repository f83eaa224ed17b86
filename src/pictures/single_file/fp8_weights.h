// Weights in FP8 of single files, as ComfyUI writes them: plain, or with a scale.
#pragma once

#include "src/formats/checkpoint.h"

namespace gabbro::pictures {

// The checkpoint with its tensors of F8_E4M3 and F8_E5M2 in bf16, times NAME.scale_weight or NAME.weight_scale where
// there is one (of the tensor or of each row, f32, f16 or bf16), and without the tensors that only describe them. The
// same checkpoint if it has none. Values are made when they are read, which throws bad_input for codes that are not
// numbers. Throws bad_input that names the tensor: a scale of another shape, or that is not a number.
Checkpoint with_plain_weights(const Checkpoint& checkpoint);

}  // namespace gabbro::pictures
