// The simulator's kernels, by source.
#pragma once

#include <string_view>

#include "backends/gpu/sim/block.h"

namespace emulated_hip {

// The kernel that this source ("kernels/rows/rms_norm.cc") instantiates for waves of `wave` lanes; null if there is
// none.
const gabbro::gpu::sim::Registration* find_kernel(std::string_view source, const char* name, int wave);

}  // namespace emulated_hip
