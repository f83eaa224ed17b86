// The compute capability of an NVIDIA GPU by its PCI device id, for machines that cannot ask the driver.
#pragma once

#include <cstdint>

namespace gabbro::discovery {

// 89 for capability 8.9; 0 for a chip that is not in the table (older than Volta, or newer than the table).
int compute_capability(uint16_t device);

}  // namespace gabbro::discovery
