// The pages of several sequences as tables, for the steps that read them.
#pragma once

#include <span>
#include <vector>

#include "src/engine/cache/engine_cache.h"
#include "src/engine/sequence.h"

namespace gabbro {

// Page tables [rows, M] of the sequences, by group of the cache's layers; other rows are zeros. Rows have the number of
// pages of the longest sequence, so that short ones share plans.
std::vector<std::vector<int32_t>> page_tables(const EngineCache& cache, std::span<const Sequence* const> sequences,
                                              size_t rows);
std::vector<Tensor> upload_tables(Device& device, const EngineCache& cache, std::span<const Sequence* const> sequences,
                                  size_t rows);

}  // namespace gabbro
