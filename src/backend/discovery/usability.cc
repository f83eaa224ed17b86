#include "src/backend/discovery/usability.h"

#include <fmt/format.h>

#include "src/backend/discovery/permission.h"
#include "src/backend/discovery/visible_devices.h"
#include "src/base/hip/package.h"

namespace gabbro::discovery {
namespace {

Verdict other_driver(const Card& card, const std::string& right) {
  const PciGpu& pci = card.pci;
  if (pci.driver == "vfio-pci") {
    return {ChainLink::kDriver, "the card is reserved for virtual machines (driver vfio-pci)",
            fmt::format("echo {0} | sudo tee /sys/bus/pci/drivers/vfio-pci/unbind && echo {0} | sudo tee "
                        "/sys/bus/pci/drivers/{1}/bind",
                        pci.address, right)};
  }
  const std::string reason = fmt::format("the driver {} has the card, and not {}", pci.driver, right);
  if (pci.driver == "nouveau") {
    return {ChainLink::kDriver, reason,
            "install NVIDIA's driver (Debian: sudo apt install nvidia-driver), then reboot"};
  }
  return {ChainLink::kDriver, reason, fmt::format("sudo modprobe {} and unload {}, or reboot", right, pci.driver)};
}

Verdict judge_amd_driver(const Machine& machine, const Card& card) {
  const KernelFacts& kernel = machine.kernel;
  if (card.pci.driver == "amdgpu") return {};
  if (!card.pci.driver.empty()) return other_driver(card, "amdgpu");
  if (kernel.amdgpu_loaded) {
    return {ChainLink::kDriver, "the amdgpu kernel driver is loaded, but it does not drive this card",
            "sudo dmesg | grep amdgpu says why; a new card needs a newer kernel and linux-firmware"};
  }
  if (!kernel.amdgpu_blacklisted_in.empty()) {
    return {ChainLink::kDriver,
            fmt::format("the amdgpu kernel driver is not loaded: {} forbids it", kernel.amdgpu_blacklisted_in),
            fmt::format("take amdgpu out of {}, then sudo update-initramfs -u (Fedora: sudo dracut -f) and reboot",
                        kernel.amdgpu_blacklisted_in)};
  }
  return {ChainLink::kDriver, "the amdgpu kernel driver is not loaded",
          machine.process.container.empty() ? "sudo modprobe amdgpu" : "on the host: sudo modprobe amdgpu"};
}

Verdict judge_nvidia_driver(const Machine& machine, const Card& card) {
  if (card.pci.driver == "nvidia" || !machine.kernel.nvidia_version.empty()) return {};
  if (!card.pci.driver.empty()) return other_driver(card, "nvidia");
  return {ChainLink::kDriver, "the nvidia kernel driver is not loaded", "sudo modprobe nvidia"};
}

Verdict judge_compute_driver(const Card& card) {
  if (!card.amd() || card.kfd) return {};
  if (card.compute_hidden) {
    return {ChainLink::kComputeDriver, "the device rules of this container hide the card from the compute driver",
            "give the container this card's /dev/dri/renderD* as well, or all of /dev/dri"};
  }
  return {ChainLink::kComputeDriver, "the kernel's compute driver (KFD) does not offer this card",
          "sudo dmesg | grep -i kfd says why: no PCIe atomics in this slot, or a kernel older than the card"};
}

Verdict judge_report(const Machine& machine, const Card& card, const RuntimeReport& report) {
  const RuntimeKind kind = card.amd() ? RuntimeKind::kHip : RuntimeKind::kCuda;
  switch (report.state) {
    case RuntimeState::kOk:
    case RuntimeState::kNotProbed:
      return {};
    case RuntimeState::kMissing:
      return {ChainLink::kRuntime,
              fmt::format("there is no {}{}{}", runtime_name(kind), report.message.empty() ? "" : ": ", report.message),
              card.amd() ? hip_search::package_hint(machine.root.path(""))
                         : "install the libraries of NVIDIA's driver (Debian: libcuda1) in the driver's version"};
    case RuntimeState::kHung:
      return {ChainLink::kRuntime, report.message,
              card.amd() ? "the kernel driver is most likely older than the runtime: update the kernel or amdgpu-dkms, "
                           "or install the runtime of the driver's ROCm release"
                         : "sudo nvidia-smi shows whether the driver answers; if not, reboot"};
    case RuntimeState::kCrashed:
    case RuntimeState::kFailed:
      break;
  }
  return {ChainLink::kRuntime, fmt::format("the {} fails: {}", runtime_name(kind), report.message),
          "install driver and runtime of one release; gabbro doctor lists both"};
}

Verdict judge_device(const Machine& machine, const Card& card, const RuntimeReport& report) {
  if (report.state != RuntimeState::kOk || report.sees(card.pci.address)) return {};
  const Visibility visibility = visible_cards(machine.cards, machine.environment);
  if (!visibility.shows(card)) {
    std::string variables;
    for (const char* name : {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
      if (!card.amd() && std::string_view(name) != "CUDA_VISIBLE_DEVICES") continue;
      if (machine.environment.get(name)) variables += std::string(variables.empty() ? "" : " ") + name;
    }
    if (!variables.empty()) return {ChainLink::kDevice, "hidden by " + variables, "unset " + variables};
  }
  return {ChainLink::kDevice,
          fmt::format("the {} does not list it", runtime_name(card.amd() ? RuntimeKind::kHip : RuntimeKind::kCuda)),
          "gabbro doctor checks what may keep it from the runtime"};
}

}  // namespace

Verdict judge_kernel(const Machine& machine, const Card& card) {
  Verdict verdict = card.amd() ? judge_amd_driver(machine, card) : judge_nvidia_driver(machine, card);
  if (!verdict.holds()) return verdict;
  for (const std::string& path : nodes_of(card)) {
    verdict = judge_node(machine, machine.nodes.at(path));
    if (!verdict.holds()) return verdict;
  }
  return judge_compute_driver(card);
}

Verdict judge_runtime(const Machine& machine, const Card& card, const RuntimeReport& report) {
  const Verdict verdict = judge_report(machine, card, report);
  return verdict.holds() ? judge_device(machine, card, report) : verdict;
}

}  // namespace gabbro::discovery
