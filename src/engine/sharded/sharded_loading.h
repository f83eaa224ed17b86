// Loading of a model whose tensors are cut for several devices. Private to src/engine.
#pragma once

#include <span>
#include <string>

#include "src/engine/loaded_model.h"

namespace gabbro::sharded {

// Loads the parts of loaded.ranks, whose devices are open, with the options of a model on one device. Throws bad_input
// for what a split model cannot have and for tensors that have no cut, and OutOfMemory where a part does not fit.
void load_ranks(const Checkpoint& checkpoint, const LoadOptions& wanted, llm::LoadModelOptions options,
                LoadedModel& loaded);

// "Radeon RX 7900 XTX (50 % of each tensor), ..."
std::string describe(std::span<const ModelRank> ranks);

}  // namespace gabbro::sharded
