// A GPU's memory besides weights and activations: granularity of pools and ranges, and converted weights.
#pragma once

#include <cstdint>

#include "src/engine/model_needs.h"

namespace gabbro::streaming {

// An upper bound of a pool's rounding of an allocation of this size.
uint64_t pool_rounding(uint64_t bytes);

// Scratch of a GEMM of many tokens with this matrix, whose weights are converted to f16 for the vendor's library.
uint64_t converted_bytes(DType dtype, int64_t rows, int64_t columns);

// Bytes of the cache. If its memory grows on demand, each layer's keys and values are rounded up to the granularity of
// the device (2 MiB on NVIDIA).
uint64_t cache_bytes(const ModelNeeds& needs, DType kv_type, const CacheSize& size, Device& device);

}  // namespace gabbro::streaming
