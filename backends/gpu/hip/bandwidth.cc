#include "backends/gpu/hip/bandwidth.h"

#include <algorithm>
#include <array>

#include "backends/gpu/hip/code_target.h"
#include "src/base/published_bandwidth.h"

namespace gabbro::gpu::hip {
namespace {

constexpr std::array<std::string_view, 9> kHbmTargets = {"gfx900", "gfx906", "gfx908", "gfx90a", "gfx940",
                                                         "gfx941", "gfx942", "gfx950", "gfx904"};

}  // namespace

double bandwidth_of(std::string_view architecture, std::string_view name, uint64_t memory, const MemoryClock& clock) {
  const std::string_view target = target_of(architecture);
  if (const auto published = published_bandwidth(target, name, memory)) return published->bytes_per_second;
  if (std::ranges::find(kHbmTargets, target) == kHbmTargets.end()) return 0;
  return 2e3 * clock.kilohertz * clock.bits / 8;
}

}  // namespace gabbro::gpu::hip
