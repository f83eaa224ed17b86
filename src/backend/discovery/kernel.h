// The running kernel and its GPU drivers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/backend/discovery/system_root.h"

namespace gabbro::discovery {

struct KernelFacts {
  std::string release;       // "6.8.0-45-generic"
  std::string command_line;  // without what is secret: it is only searched
  bool wsl = false;
  bool amdgpu_loaded = false;
  std::string amdgpu_version;           // of the driver from AMD's packages; empty: the kernel's own
  std::string amdgpu_blacklisted_in;    // the file of modprobe.d, or "the kernel command line"
  std::optional<uint64_t> ttm_pages;    // limit of system memory that GPUs may map, in pages of 4 KiB
  std::optional<int64_t> gpu_recovery;  // amdgpu.gpu_recovery: -1 automatic, 0 off
  bool iommu = false;                   // an IOMMU is active
  std::string nvidia_version;           // "570.86.15"; empty: not loaded
  std::vector<std::string> core_dumps;  // devcd*: what the kernel kept of a GPU that hung

  // Whether the version is at least major.minor.
  bool at_least(int major, int minor) const;
};

KernelFacts read_kernel(const SystemRoot& root);

}  // namespace gabbro::discovery
