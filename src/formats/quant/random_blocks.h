// Weights that mean nothing, in any format: for measuring speed without a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gabbro/dtype.h"

namespace gabbro {

// Fills `out`, a whole number of blocks, with random values of that format: all codes and sub-scales occur, and scales
// (and minimums) are such that the values have a mean near 0 and a standard deviation near `deviation`. All are finite.
// Throws bad_input for a dtype that weights do not have.
void fill_random(DType dtype, std::span<std::byte> out, float deviation, uint64_t seed);

}  // namespace gabbro
