// The number format that a pipeline's U-Net and autoencoder compute in.
#pragma once

#include <string>
#include <vector>

#include "gabbro/dtype.h"

namespace gabbro::pictures {

// Names: "auto", "f32", "f16", "bf16". kF16 and kBf16 have activations and weights in this format, and sums in f32.
enum class Precision { kAuto, kF32, kF16, kBf16 };

// Also by torch's names ("float16"). Throws bad_input for another one.
Precision parse_precision(const std::string& name);

// f32, f16 or bf16. kAuto is f32 on every device: f16 differs visibly from other programs' f32 pictures.
DType dtype_of(Precision precision);

bool all_finite(const std::vector<float>& values);

}  // namespace gabbro::pictures
