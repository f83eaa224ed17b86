// Products of f16 or bf16 by the convolution of one tap.
#pragma once

#include <memory>

#include "backends/common/primitives.h"
#include "backends/gpu/kernel.h"

namespace gabbro::gpu {

// x [M, K] · weight [N, K]ᵀ + bias, all in one dtype, rounded once; inputs 0, 1 and 2. Null for other layouts, f32, or
// an activation.
std::unique_ptr<Kernel> make_pixel_product(DType dtype, const abi::FusedMatmul& product, const MakeContext& context);

}  // namespace gabbro::gpu
