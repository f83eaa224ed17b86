// The order in which `--device auto` prefers devices.
#pragma once

#include <cstdint>
#include <tuple>

#include "gabbro/backend_abi.h"

namespace gabbro {

// Less is better. A usable discrete GPU comes first, then an integrated one with enough memory, then the CPU, then an
// integrated GPU with less memory, and last unusable ones. Among equals the backend's score decides (CUDA, ROCm,
// others), then free memory in whole GiB, so that of two like cards the idle one is taken.
using Rank = std::tuple<int, int32_t, int64_t>;  // kind, negative score, negative GiB

// Least useful memory of an integrated GPU: a model of 3 billion parameters in 4 bits, and its cache.
inline constexpr uint64_t kLeastIntegratedMemory = uint64_t{2} << 30;

Rank rank_of(const abi::DeviceFacts& facts, int32_t score);

}  // namespace gabbro
