// Random numbers: Philox 4x32-10 (Salmon et al. 2011), functions of a key, so that equal keys give equal numbers, bit
// by bit, on every device.
#pragma once

#include <cstdint>

#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

// A key, i32 [6], is a tensor like any other: what is compiled with one key runs with all. Element i is made of word i
// % 4 of the generator's block number offset + i / 4; numbers of two streams have nothing in common.
Tensor random_key(const DevicePointer& device, uint64_t seed, uint64_t offset = 0, uint64_t stream = 0);
Tensor random_bits(const Tensor& key, const Shape& shape);                         // i32: all 32 bits of a word
Tensor rand(const Tensor& key, const Shape& shape);                                // [0, 1), multiples of 2^-24
Tensor randn(const Tensor& key, const Shape& shape);                               // normal, by Box and Muller (1958)
Tensor randint(const Tensor& key, int64_t low, int64_t high, const Shape& shape);  // i32 in [low, high)

// Bounds that hold in the result's dtype: a number of f32 that is below a bound may be rounded to the bound itself.
// Spread evenly over [0, 1): multiples of 2⁻²⁴, in f16 of 2⁻¹¹ and in bf16 of 2⁻⁸, which these hold exactly.
Tensor rand(const Tensor& key, const Shape& shape, DType dtype);
// Spread evenly over [low, high); `low` everywhere where the two are equal, or the dtype has no number between them.
// Throws bad_input "[uniform] ..." for bounds that are not finite in the dtype, or in the wrong order.
Tensor uniform(const Tensor& key, const Shape& shape, double low, double high, DType dtype);

}  // namespace gabbro
#pragma GCC visibility pop
