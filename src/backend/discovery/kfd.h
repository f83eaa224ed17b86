// The nodes of /sys/class/kfd/kfd/topology: what AMD's compute driver offers. A card that is missing here cannot
// compute, whatever the rest of the system says of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/backend/discovery/system_root.h"

namespace gabbro::discovery {

struct KfdNode {
  int number = 0;
  std::string pci_address;   // "0000:03:00.0"
  int partition = 0;         // of a card that is split into several nodes (CPX and the like)
  std::string architecture;  // "gfx1100"
  std::string uuid;          // "GPU-7f3a..."; empty where the card has none
  int compute_units = 0;
  int wave_size = 0;         // lanes
  int render_minor = -1;     // of /dev/dri/renderD<minor>
  uint64_t local_bytes = 0;  // dedicated memory
  bool large_bar = false;    // the host can reach all of that memory
  bool atomics = true;       // PCIe atomics between the card and the host
};

struct KfdTopology {
  bool present = false;         // the driver has a topology
  std::vector<KfdNode> gpus;    // in the order of their numbers, which is the order of the runtime's devices
  std::vector<int> unreadable;  // nodes that a device cgroup hides from this process
};

KfdTopology read_kfd_topology(const SystemRoot& root);

// "gfx90a" for 90010, "gfx1201" for 120001: 10000 · major + 100 · minor + stepping, the last two as hexadecimal
// digits. Empty for 0 (a CPU) and for what cannot be a target.
std::string gfx_name(uint64_t gfx_target_version);

}  // namespace gabbro::discovery
