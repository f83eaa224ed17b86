// The order in which `--device auto` prefers devices.
#pragma once

#include <compare>
#include <cstdint>

#include "gabbro/backend_abi.h"

namespace gabbro {

// Less is better. A usable discrete GPU comes first, then an integrated one with enough memory, then the CPU, then an
// integrated GPU that has too little, and last what cannot be used. Among equals the backend's score decides (CUDA,
// ROCm, others), then free memory in whole GiB, so that of two like cards the idle one is taken.
struct Rank {
  int kind = 0;
  int32_t negative_score = 0;
  int64_t negative_free = 0;  // GiB

  auto operator<=>(const Rank&) const = default;
};

// What an integrated GPU needs at least to be worth it: a model of 3 billion parameters in 4 bits, and its cache.
inline constexpr uint64_t kLeastIntegratedMemory = uint64_t{2} << 30;

Rank rank_of(const abi::DeviceFacts& facts, int32_t score);

}  // namespace gabbro
