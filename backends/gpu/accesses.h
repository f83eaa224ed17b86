// The memory that a launch reads and writes, for the simulator's check of the order of accesses.
#pragma once

#include <vector>

#include "backends/gpu/api.h"

namespace gabbro::gpu {

// The operands and the scratch.
std::vector<api::Access> accesses_of(const abi::Launch& launch, size_t scratch_bytes);

}  // namespace gabbro::gpu
