// The checks, by the file that holds them; check_table.cc gives each its id and place.
#pragma once

#include <optional>
#include <string>

#include "src/backend/doctor/check.h"

namespace gabbro::doctor {

// driver_checks.cc: kernel drivers, and what they offer.
Finding check_cards(const Examination& e);
Finding check_amdgpu_driver(const Examination& e);
Finding check_compute_driver(const Examination& e);
Finding check_kernel_version(const Examination& e);
Finding check_nvidia_driver(const Examination& e);
Finding check_hang_recovery(const Examination& e);
Finding check_wsl(const Examination& e);

// access_checks.cc: permissions, containers.
Finding check_permissions(const Examination& e);
Finding check_container(const Examination& e);

// selection_checks.cc: which device is which, and what is hidden.
Finding check_visible_devices(const Examination& e);
Finding check_override(const Examination& e);
Finding check_architecture(const Examination& e);
Finding check_integrated_and_discrete(const Examination& e);
Finding check_backends(const Examination& e);

// runtime_checks.cc: the vendors' runtimes.
Finding check_hip_runtime(const Examination& e);
Finding check_runtime_kernel_pair(const Examination& e);
Finding check_cuda_runtime(const Examination& e);

// install_checks.cc: what is installed, and whether it fits together.
Finding check_rocm_path(const Examination& e);
Finding check_rocm_trees(const Examination& e);
Finding check_repositories(const Examination& e);
Finding check_installer(const Examination& e);
Finding check_python_packages(const Examination& e);
Finding check_miopen_search(const Examination& e);
Finding check_windows(const Examination& e);

// The trees of ROCm in the order in which HIP is searched for there: ROCM_PATH, /opt/rocm, /opt/rocm/core-10.0, ...
std::vector<std::string> rocm_trees(const Examination& e);

// Copies of HIP that one process could load together.
Finding check_two_runtimes(const Examination& e);

// apu_checks.cc
Finding check_apu_pair(const Examination& e);

// memory_checks.cc
Finding check_apu_memory(const Examination& e);
Finding check_free_memory(const Examination& e);

// bus_checks.cc: PCIe, IOMMU, power.
Finding check_iommu(const Examination& e);
Finding check_atomics(const Examination& e);
Finding check_link(const Examination& e);
Finding check_large_bar(const Examination& e);
Finding check_idle(const Examination& e);

// device_checks.cc: what a backend measures on its devices; see abi::Backend::run_check.
Finding check_code_objects(const Examination& e);
Finding check_kernels(const Examination& e);
Finding check_peer_copies(const Examination& e);
Finding check_graphs(const Examination& e);
Finding check_host_copies(const Examination& e);
Finding check_allocator(const Examination& e);
Finding check_bandwidth(const Examination& e);
Finding check_products(const Examination& e);

// A rate of host-copies: what `gabbro_probe copy` printed for a mapped file.
struct MappedCopy {
  bool timed_out = false;
  double bytes_per_second = 0;  // 0: it failed
  std::string problem;          // one line
};
// Adds the rate to the finding of a device, and makes it worse where copies of model files are slow.
Finding with_mapped_copy(Finding finding, const MappedCopy& copy);

// Five seconds after work, with the device still open.
struct IdleFacts {
  double processor_share = 0;   // of one core, by this process
  std::optional<double> watts;  // of the card
  std::optional<int> busy_percent;
};
Finding judge_idle(const std::string& device, const IdleFacts& facts);
Finding check_idle_after_work(const Examination& e);

}  // namespace gabbro::doctor
