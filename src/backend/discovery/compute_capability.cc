#include "src/backend/discovery/compute_capability.h"

#include <algorithm>
#include <array>

namespace gabbro::discovery {
namespace {

struct DeviceRange {
  uint16_t first, last;
  int capability;
};

// Device ids are assigned to chips in blocks (the list of PCI devices, pci.ids); capabilities follow NVIDIA's
// list of CUDA GPUs.
constexpr std::array kRanges = {
    DeviceRange{0x1d80, 0x1dff, 70},   // GV100
    DeviceRange{0x1e00, 0x1fff, 75},   // TU102, TU104, TU106, TU117
    DeviceRange{0x2080, 0x20ff, 80},   // GA100
    DeviceRange{0x2180, 0x21ff, 75},   // TU116
    DeviceRange{0x2200, 0x22ff, 86},   // GA102
    DeviceRange{0x2300, 0x23ff, 90},   // GH100
    DeviceRange{0x2400, 0x25ff, 86},   // GA103, GA104, GA106, GA107
    DeviceRange{0x2600, 0x28ff, 89},   // AD102, AD103, AD104, AD106, AD107
    DeviceRange{0x2900, 0x29ff, 100},  // GB100, GB102
    DeviceRange{0x2b80, 0x2dff, 120},  // GB202, GB203, GB206, GB207
    DeviceRange{0x2e00, 0x2e7f, 121},  // GB10
    DeviceRange{0x2f00, 0x2f7f, 120},  // GB205
    DeviceRange{0x3180, 0x31ff, 103},  // GB110
};

}  // namespace

int compute_capability(uint16_t device) {
  const auto range = std::ranges::find_if(
      kRanges, [device](const DeviceRange& chip) { return chip.first <= device && device <= chip.last; });
  return range == kRanges.end() ? 0 : range->capability;
}

}  // namespace gabbro::discovery
