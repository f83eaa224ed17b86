// Usable memory of an integrated GPU. It has two pools: the carve-out ("VRAM"), which the firmware took from the
// machine for the GPU alone, and GTT, a limit on how much ordinary memory the GPU may map.
#pragma once

#include <cstdint>

#include "src/backend/discovery/pci.h"

namespace gabbro::discovery {

// Bytes; of /proc/meminfo.
struct HostMemory {
  uint64_t total = 0;
  uint64_t available = 0;
};

HostMemory read_host_memory(const SystemRoot& root);

// Memory left to the rest of the system: 1/16, and at least 1 GiB.
uint64_t host_reserve(const HostMemory& host);

struct MemoryBudget {
  uint64_t total = 0;  // what could be had on an idle machine
  uint64_t free = 0;   // what can be had now
};

// budget = carve-out + min(GTT, host memory - reserve), where "free" takes what is free of each, and "total" all of it.
// GTT is a limit and not memory: its pages come out of MemAvailable, while pages of the carve-out do not. The plain sum
// VRAM + GTT promises memory that is not there (ROCm issue 6004); min(VRAM + GTT, MemAvailable) would hide a large
// carve-out, which is not part of MemAvailable.
MemoryBudget apu_memory_budget(const MemoryPool& vram, const MemoryPool& gtt, const HostMemory& host);

}  // namespace gabbro::discovery
