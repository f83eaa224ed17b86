// Bytes for checks of copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gabbro::gpu {

// Bytes that depend on their position and on `seed` (a linear congruential generator, Numerical Recipes).
inline std::vector<std::byte> test_pattern(size_t bytes, uint32_t seed) {
  std::vector<std::byte> values(bytes);
  for (std::byte& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<std::byte>(seed >> 24);
  }
  return values;
}

}  // namespace gabbro::gpu
