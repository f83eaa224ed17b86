// Kernel drivers: bound, new enough, offering compute, recovering from a hang.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/backend/doctor/checks.h"

namespace gabbro::doctor {
namespace {

using namespace discovery;

// Linux releases in which a target's support became usable, for the kernel's own amdgpu driver.
struct MinimumKernel {
  std::string_view targets;  // a prefix
  int major, minor;
};
constexpr std::array<MinimumKernel, 5> kMinimumKernels = {
    {{"gfx110", 6, 1}, {"gfx1150", 6, 10}, {"gfx1151", 6, 10}, {"gfx120", 6, 12}, {"gfx942", 6, 6}}};

constexpr double kLeastWslMemory = 12;  // GiB: WSL takes half of the machine's by default

// The first card whose chain breaks at this link.
const Card* broken_at(const Examination& e, Vendor vendor, ChainLink link, Verdict& verdict) {
  for (const Card* card : e.machine.cards_of(vendor)) {
    verdict = judge_kernel(e.machine, *card);
    if (verdict.broken == link) return card;
  }
  return nullptr;
}

}  // namespace

Finding check_cards(const Examination& e) {
  std::string list;
  for (const Card& card : e.machine.cards) {
    list += fmt::format("{}{} at {}", list.empty() ? "" : ", ", card.pci.name, label(card));
  }
  if (list.empty() && e.machine.kernel.wsl && e.machine.root.exists("/dev/dxg")) {
    // WSL has no amdgpu and shows no card: the runtime knows of it.
    const RuntimeReport& report = e.runtimes.report(RuntimeKind::kHip);
    if (!report.devices.empty()) {
      return ok(fmt::format("WSL shows no card to Linux; HIP {} sees {} GPU{}", report.version, report.devices.size(),
                            report.devices.size() == 1 ? "" : "s"));
    }
  }
  return ok(list.empty() ? "no AMD or NVIDIA GPU on the PCI bus: models run on the CPU" : list);
}

Finding check_amdgpu_driver(const Examination& e) {
  if (!e.machine.has(Vendor::kAmd)) return skipped("there is no AMD GPU");
  Verdict verdict;
  if (const Card* card = broken_at(e, Vendor::kAmd, ChainLink::kDriver, verdict)) {
    return error(fmt::format("{}: {}", label(*card), verdict.reason), verdict.fix);
  }
  const KernelFacts& kernel = e.machine.kernel;
  return ok(kernel.amdgpu_version.empty() ? fmt::format("amdgpu of Linux {}", kernel.release)
                                          : fmt::format("amdgpu {} (AMD's package)", kernel.amdgpu_version));
}

Finding check_compute_driver(const Examination& e) {
  const auto cards = driven_amd_cards(e);
  if (cards.empty()) return skipped(kNoAmdCard);
  for (const Card* card : cards) {
    if (card->kfd) continue;
    Verdict verdict;
    const bool judged = broken_at(e, Vendor::kAmd, ChainLink::kComputeDriver, verdict) != nullptr;
    return error(fmt::format("{}: {}", label(*card),
                             judged ? verdict.reason : "the kernel's compute driver (KFD) does not offer this card"),
                 judged ? verdict.fix : "sudo dmesg | grep -i kfd says why");
  }
  return ok(fmt::format("the compute driver offers {} of {} AMD GPUs", cards.size(), cards.size()));
}

Finding check_kernel_version(const Examination& e) {
  const auto cards = driven_amd_cards(e);
  if (cards.empty()) return skipped(kNoAmdCard);
  const KernelFacts& kernel = e.machine.kernel;
  if (!kernel.amdgpu_version.empty()) return ok("the driver comes from AMD's package, and not from the kernel");
  for (const Card* card : cards) {
    for (const MinimumKernel& row : kMinimumKernels) {
      if (!card->architecture().starts_with(row.targets) || kernel.at_least(row.major, row.minor)) continue;
      return warning(fmt::format("{}: Linux {} is older than {}.{}, in which its support became usable", label(*card),
                                 kernel.release, row.major, row.minor),
                     fmt::format("install Linux {}.{} or newer (Debian: backports; Ubuntu: the HWE kernel)", row.major,
                                 row.minor));
    }
  }
  return ok(fmt::format("Linux {} is new enough for these cards", kernel.release));
}

Finding check_nvidia_driver(const Examination& e) {
  if (!e.machine.has(Vendor::kNvidia)) return skipped("there is no NVIDIA GPU");
  for (const Card* card : e.machine.cards_of(Vendor::kNvidia)) {
    const Verdict verdict = judge_kernel(e.machine, *card);
    if (!verdict.holds()) return error(fmt::format("{}: {}", label(*card), verdict.reason), verdict.fix);
  }
  return ok("nvidia " + e.machine.kernel.nvidia_version);
}

Finding check_hang_recovery(const Examination& e) {
  if (driven_amd_cards(e).empty()) return skipped(kNoAmdCard);
  const KernelFacts& kernel = e.machine.kernel;
  if (kernel.gpu_recovery == 0) {
    return warning("the driver does not reset a GPU that hangs (amdgpu.gpu_recovery=0)",
                   "remove amdgpu.gpu_recovery=0 from the kernel command line or /etc/modprobe.d, then reboot");
  }
  if (!kernel.core_dumps.empty()) {
    return warning(fmt::format("a GPU has hung since the machine started: the kernel kept {}", kernel.core_dumps[0]),
                   fmt::format("sudo dmesg | grep -iE 'amdgpu.*(timeout|reset|fault)'; sudo cat "
                               "/sys/class/devcoredump/{}/data > gpu-dump.bin and report it",
                               kernel.core_dumps[0]));
  }
  return ok("the driver resets a GPU that hangs; no hang is on record");
}

Finding check_wsl(const Examination& e) {
  if (!e.machine.kernel.wsl) return skipped("this is not WSL");
  if (!e.machine.root.exists("/dev/dxg")) {
    return error("WSL without GPU access: /dev/dxg does not exist",
                 "in Windows: wsl --update, then wsl --shutdown; and install the newest Adrenalin driver");
  }
  std::vector<std::string> folders = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/wsl/lib"};
  for (const std::string& tree : rocm_trees(e)) folders.push_back(tree + "/lib");
  const bool found = std::ranges::any_of(folders, [&](const std::string& folder) {
    return e.machine.root.exists(folder + "/librocdxg.so") || e.machine.root.exists(folder + "/librocdxg.so.1");
  });
  if (!found) {
    return warning("WSL: librocdxg, through which ROCm reaches the GPU of Windows, is not installed",
                   "install librocdxg of AMD's ROCm for WSL, and the Adrenalin driver that its notes name");
  }
  const double gib = static_cast<double>(e.machine.memory.total) / (1 << 30);
  if (gib < kLeastWslMemory) {
    return warning(
        fmt::format("WSL gives Linux {:.1f} GiB of memory: models are read through it, and an integrated GPU "
                    "has no other",
                    gib),
        "in Windows, write [wsl2] and below it memory=24GB into %UserProfile%\\.wslconfig, then wsl --shutdown");
  }
  return ok(fmt::format("WSL with /dev/dxg and librocdxg, {:.1f} GiB of memory", gib));
}

}  // namespace gabbro::doctor
