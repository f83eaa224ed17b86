// Loading of a model whose tensors are cut for several devices. Private to src/engine.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/engine/cache/cache_size.h"
#include "src/engine/loaded_model.h"

namespace gabbro::sharded {

// Loads the parts of loaded.ranks, whose devices are open, with the options of a model on one device. Throws bad_input
// for what a split model cannot have and for tensors that have no cut, and OutOfMemory where a part does not fit.
void load_ranks(const Checkpoint& checkpoint, const LoadOptions& wanted, llm::LoadModelOptions options,
                LoadedModel& loaded);

// The forecast of a part, in bytes.
struct PartSizes {
  uint64_t weights = 0, cache = 0;
};
// The parts of a model for `shares`. Throws bad_input as load_ranks().
std::vector<PartSizes> part_sizes(const Checkpoint& checkpoint, std::span<const double> shares, DType kv_type,
                                  const CacheSize& size);

// "Radeon RX 7900 XTX (50 % of each tensor), ..."
std::string describe(std::span<const ModelRank> ranks);

}  // namespace gabbro::sharded
