// The visible list of all checks. The first group are the faults that every tool of this kind knows; the ids of the
// hardware's own checks are also what a backend is asked for.
#include <array>

#include "src/backend/doctor/checks.h"
#include "src/backend/doctor/doctor.h"

namespace gabbro::doctor {
namespace {

constexpr std::array kChecks = {
    Check{"gpus", check_cards},
    Check{"amdgpu-driver", check_amdgpu_driver},
    Check{"compute-driver", check_compute_driver},
    Check{"kernel-version", check_kernel_version},
    Check{"nvidia-driver", check_nvidia_driver},
    Check{"wsl", check_wsl},
    Check{"permissions", check_permissions},
    Check{"container", check_container},
    Check{"backends", check_backends},
    Check{"hip-runtime", check_hip_runtime},
    Check{"runtime-kernel-pair", check_runtime_kernel_pair},
    Check{"apu-pair", check_apu_pair},
    Check{"two-hip-runtimes", check_two_runtimes},
    Check{"cuda-runtime", check_cuda_runtime},
    Check{"visible-devices", check_visible_devices},
    Check{"gfx-override", check_override},
    Check{"architecture", check_architecture},
    Check{"integrated-and-discrete", check_integrated_and_discrete},
    Check{"rocm-path", check_rocm_path},
    Check{"rocm-trees", check_rocm_trees},
    Check{"package-repositories", check_repositories},
    Check{"installer", check_installer},
    Check{"python-packages", check_python_packages},
    Check{"windows-hip-sdk", check_windows},
    Check{"windows-adrenalin", check_windows},
    Check{"windows-msvc-runtime", check_windows},
    Check{"apu-memory", check_apu_memory},
    Check{"free-memory", check_free_memory},
    Check{"iommu", check_iommu},
    Check{"pcie-atomics", check_atomics},
    Check{"pcie-link", check_link},
    Check{"large-bar", check_large_bar},
    Check{"hang-recovery", check_hang_recovery},
    Check{"miopen-search", check_miopen_search},
    Check{"code-objects", check_code_objects},
    Check{"kernels", check_kernels},
    Check{"peer-copies", check_peer_copies},
    Check{"graphs", check_graphs},
    Check{"host-copies", check_host_copies},
    Check{"allocator", check_allocator},
    Check{"bandwidth", check_bandwidth},
    Check{"products", check_products},
    Check{"idle-power", check_idle},
};

}  // namespace

std::span<const Check> check_table() { return kChecks; }

}  // namespace gabbro::doctor
