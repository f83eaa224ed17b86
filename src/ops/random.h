// Random numbers within bounds that hold in the result's dtype: a number of f32 that is below a bound may be rounded to
// the bound itself.
#pragma once

#include "src/ops/ops.h"

namespace gabbro {

// Spread evenly over [0, 1): multiples of 2⁻²⁴, in f16 of 2⁻¹¹ and in bf16 of 2⁻⁸, which these hold exactly.
Tensor rand(const Tensor& key, const Shape& shape, DType dtype);
// Spread evenly over [low, high); `low` everywhere where the two are equal, or the dtype has no number between them.
// Throws bad_input "[uniform] ..." for bounds that are not finite in the dtype, or in the wrong order.
Tensor uniform(const Tensor& key, const Shape& shape, double low, double high, DType dtype);

}  // namespace gabbro
