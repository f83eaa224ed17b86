// The number format that a pipeline's U-Net and autoencoder compute in.
#pragma once

#include <string>
#include <vector>

#include "gabbro/dtype.h"
#include "src/backend/device.h"

namespace gabbro::pictures {

// Names: "auto", "f32", "f16", "bf16". kF16 and kBf16 have activations and weights in this format, and sums in f32.
enum class Precision { kAuto, kF32, kF16, kBf16 };

// Also by torch's names ("float16"). Throws bad_input for another one.
Precision parse_precision(const std::string& name);

// f32, f16 or bf16. kAuto is f16 on GPUs, as in other programs, and f32 on CPUs, where f16 gains no time.
DType dtype_of(Precision precision, const abi::DeviceFacts& facts);

bool all_finite(const std::vector<float>& values);

}  // namespace gabbro::pictures
