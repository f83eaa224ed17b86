// Weights that a GPU converts for a product of its vendor's library.
#pragma once

#include <cstdint>

namespace gabbro {

// The number that is f16 at a time, in scratch memory: with 14336 columns more than 4096 rows, enough for a GEMM to
// fill a large GPU. A longer row is converted whole.
inline constexpr int64_t kConvertedWeights = int64_t{64} << 20;

}  // namespace gabbro
