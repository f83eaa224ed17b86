// GPUs on the PCI bus, with or without a driver: /sys/bus/pci/devices, and /sys/class/drm/card*/device, which are the
// same folders where both exist.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/backend/discovery/system_root.h"

namespace gabbro::discovery {

enum class Vendor : uint16_t { kAmd = 0x1002, kNvidia = 0x10de };

struct PcieLink {
  std::string speed, max_speed;  // "16.0 GT/s PCIe"; the current speed falls while a card is idle
  int width = 0, max_width = 0;  // lanes; 0: unknown
};

// Bytes, as the kernel driver counts them; 0 where it does not say.
struct MemoryPool {
  uint64_t total = 0;
  uint64_t used = 0;
};

struct PciGpu {
  std::string address;  // "0000:03:00.0"
  Vendor vendor = Vendor::kAmd;
  uint16_t device = 0;
  std::string driver;       // "amdgpu", "nvidia", "vfio-pci"; empty: none is bound
  std::string name;         // what its maker or the list of PCI devices calls it, else "AMD GPU (1002:744c)"
  std::string render_node;  // "/dev/dri/renderD128"
  MemoryPool vram, gtt;     // amdgpu alone
  bool display = false;     // a monitor is connected to it
  PcieLink link;
  std::string iommu;                // "identity" (pass-through), "DMA", "DMA-FQ"; empty: none
  std::optional<int> busy_percent;  // amdgpu alone
  std::optional<double> watts;
};

// In the order of their addresses.
std::vector<PciGpu> read_pci_gpus(const SystemRoot& root);

// "0000:03:00.0" for "03:00.0" or "0000:03:00.0" in any case; empty: not a PCI address.
std::string normalized_pci_address(std::string_view text);

}  // namespace gabbro::discovery
