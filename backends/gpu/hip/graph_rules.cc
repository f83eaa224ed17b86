#include "backends/gpu/hip/graph_rules.h"

#include <fmt/format.h>

namespace gabbro::gpu::hip {

api::GraphRules graph_rules_of(int version, std::string_view target) {
  // Each graph allocates its launches' arguments in the device's memory, and a launch crashes if that failed
  // (ROCm/rocm-systems#10021: with 60 MiB or less free). So HIP keeps fewer graphs than CUDA, and makes none with less
  // than twice that free.
  api::GraphRules rules{.most = 16, .spare = size_t{128} << 20, .tested = true, .off = {}};
  // Replays give wrong bits in some processes only, which a test may miss: ROCm/clr#279 (gfx942, 7.2.0 to 7.2.3),
  // ROCm/hip#3902 (gfx950, 7.2), ROCm/rocm-systems#6888 (7.2.4).
  if (version / 100000 == 702 && target.starts_with("gfx9"))
    rules.off = fmt::format("HIP 7.2 replays them wrongly on {}; other releases do not, and GABBRO_GRAPHS=1 tries them",
                            target);
  return rules;
}

}  // namespace gabbro::gpu::hip
