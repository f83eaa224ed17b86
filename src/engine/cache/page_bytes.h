// The bytes of a page of the cache, in all layers of its group, as they go to a file and come back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/models/kv_cache.h"

namespace gabbro {

std::vector<std::byte> read_page(const nn::KvCache& cache, size_t group, int32_t page);
// Throws failed() for another number of bytes.
void write_page(const nn::KvCache& cache, size_t group, int32_t page, std::span<const std::byte> bytes);

// The kind, the type and the sizes of the layers, as text: pages of caches with another one do not fit.
std::string layout_of(const nn::KvCacheConfig& config);

}  // namespace gabbro
