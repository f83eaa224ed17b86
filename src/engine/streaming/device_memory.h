// A GPU's memory besides weights and activations: steps of pools and ranges, and weights that are converted.
#pragma once

#include <cstdint>

#include "src/engine/model_needs.h"

namespace gabbro::streaming {

// More than a pool takes for an allocation of this size, which it rounds up.
uint64_t pool_rounding(uint64_t bytes);

// Scratch of a product of many tokens with this matrix, whose weights become f16 for the vendor's library.
uint64_t converted_bytes(DType dtype, int64_t rows, int64_t columns);

// Bytes of the cache. Where its memory comes by need, each layer's keys and values have whole steps of it (2 MiB on
// NVIDIA).
uint64_t cache_bytes(const ModelNeeds& needs, DType kv_type, const CacheSize& size, Device& device);

}  // namespace gabbro::streaming
