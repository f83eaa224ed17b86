// The memory bandwidth of AMD cards.
#pragma once

#include <cstdint>
#include <string_view>

namespace gabbro::gpu::hip {

// The runtime's figures of the memory.
struct MemoryClock {
  int kilohertz;
  int bits;
};

// Bytes/s: the published figure, else the runtime's clock for HBM, which transfers twice a clock. Returns 0 (unknown)
// for other cards: the clock of GDDR6 gives an eighth of its rate, and an APU reports another clock than its memory's.
double bandwidth_of(std::string_view architecture, std::string_view name, uint64_t memory, const MemoryClock& clock);

}  // namespace gabbro::gpu::hip
