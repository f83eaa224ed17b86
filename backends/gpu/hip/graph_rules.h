// The releases of HIP that are known to replay graphs wrongly, by chip.
#pragma once

#include <string_view>

#include "backends/gpu/api.h"

namespace gabbro::gpu::hip {

// `version`: as hipRuntimeGetVersion gives it, 70253211 of HIP 7.2.53211. `target`: "gfx942".
api::GraphRules graph_rules_of(int version, std::string_view target);

}  // namespace gabbro::gpu::hip
