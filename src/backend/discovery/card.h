// A GPU as the kernel shows it: its PCI device joined with its node of the compute driver.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/backend/discovery/kfd.h"
#include "src/backend/discovery/pci.h"

namespace gabbro::discovery {

struct Card {
  PciGpu pci;
  std::optional<KfdNode> kfd;   // of an AMD card that the compute driver offers to this process
  std::string uuid;             // "GPU-..."; empty: none
  bool integrated = false;      // its memory is the machine's
  bool compute_hidden = false;  // the compute driver has nodes that a device cgroup hides; this may be one of them

  bool amd() const { return pci.vendor == Vendor::kAmd; }
  std::string backend() const { return amd() ? "rocm" : "cuda"; }
  std::string architecture() const { return kfd ? kfd->architecture : std::string(); }
  // The name by which --device takes it.
  std::string id() const { return "pci:" + pci.address; }
};

// Cards by PCI address; a card that is split into partitions appears once for each of them.
std::vector<Card> read_cards(const SystemRoot& root);

// Whether a target is that of an APU. Each target is one or the other, but for gfx942, where the device id tells.
bool is_integrated_target(std::string_view architecture, uint16_t device);

}  // namespace gabbro::discovery
