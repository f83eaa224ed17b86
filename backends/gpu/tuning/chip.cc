#include "backends/gpu/tuning/chip.h"

namespace gabbro::gpu {
namespace {

// Measured on H100 and H200 (docs/performance.md); no other chip has been measured yet.
constexpr Chip kChips[] = {
    {.target = ""},
};

}  // namespace

const Chip& find_chip(std::string_view architecture) {
  const Chip* best = &kChips[0];
  for (const Chip& chip : kChips) {
    if (architecture.starts_with(chip.target) && chip.target.size() >= best->target.size()) best = &chip;
  }
  return *best;
}

}  // namespace gabbro::gpu
