#include "src/backend/discovery/permission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

namespace gabbro::discovery {
namespace {

constexpr unsigned kGroupReadWrite = 0060, kOthersReadWrite = 0006;

bool in_group(const ProcessFacts& process, unsigned group) {
  return std::ranges::find(process.groups, group) != process.groups.end();
}

// The file's own bits would let this process in, so something else refuses.
bool bits_allow(const ProcessFacts& process, const DeviceNode& node) {
  if (process.user == 0 && !process.rootless) return true;
  if ((node.mode & kOthersReadWrite) == kOthersReadWrite) return true;
  return in_group(process, node.group) && (node.mode & kGroupReadWrite) == kGroupReadWrite;
}

bool is_nvidia(const DeviceNode& node) { return node.path.starts_with("/dev/nvidia"); }

std::string run_container(const Machine& machine, const DeviceNode& node) {
  if (machine.process.container == "kubernetes") {
    return fmt::format("give the pod its GPUs (resource {}/gpu), and securityContext.supplementalGroups: [{}]",
                       is_nvidia(node) ? "nvidia.com" : "amd.com", node.group);
  }
  const std::string program = machine.process.container == "podman" ? "podman" : "docker";
  if (is_nvidia(node)) return "start the container with: " + program + " run --gpus all ...";
  return fmt::format("start the container with: {} run {} ...", program, container_options(machine));
}

Verdict missing(const Machine& machine, const DeviceNode& node) {
  if (!machine.process.container.empty()) {
    return {ChainLink::kDeviceNode, fmt::format("{} is not in this container", node.path),
            run_container(machine, node)};
  }
  if (is_nvidia(node)) {
    return {ChainLink::kDeviceNode, node.path + " does not exist", "sudo nvidia-modprobe -u -c=0"};
  }
  if (node.path == "/dev/kfd") {
    return {ChainLink::kDeviceNode, "/dev/kfd does not exist: this kernel's amdgpu driver offers no compute",
            "install the distribution's standard kernel (built with CONFIG_HSA_AMD), then reboot"};
  }
  return {ChainLink::kDeviceNode, node.path + " does not exist", "sudo udevadm trigger --subsystem-match=drm"};
}

std::string join_group(const Machine& machine, const DeviceNode& node) {
  const std::string user = machine.process.user_name.empty() ? "$USER" : machine.process.user_name;
  if (node.group_member) {
    return fmt::format("log out and in again: {} is in the group {}, but not yet in this session", user,
                       node.group_name);
  }
  if (node.group_name.empty())
    return fmt::format(
        "sudo groupadd -g {} render && sudo usermod -aG render $USER, "
        "then log in again",
        node.group);
  if ((node.mode & kGroupReadWrite) != kGroupReadWrite || node.group == 0) {
    return fmt::format(
        "echo 'KERNEL==\"{}\", GROUP=\"render\", MODE=\"0660\"' | sudo tee "
        "/etc/udev/rules.d/70-gabbro-gpu.rules && sudo udevadm control --reload && sudo udevadm trigger",
        node.path == "/dev/kfd" ? "kfd" : "renderD*");
  }
  const bool usual = node.group_name == "render" || node.group_name == "video";
  return fmt::format("sudo usermod -aG {} $USER, then log in again", usual ? "render,video" : node.group_name);
}

Verdict refused(const Machine& machine, const DeviceNode& node) {
  const ProcessFacts& process = machine.process;
  const std::string exists = fmt::format("{} exists, but this user may not open it", node.path);
  if (bits_allow(process, node) && process.selinux_enforcing && !process.container.empty()) {
    return {ChainLink::kPermission, fmt::format("{} exists, but SELinux keeps this container from it", node.path),
            "sudo setsebool -P container_use_devices=true (on the host)"};
  }
  if (!process.container.empty()) return {ChainLink::kPermission, exists, run_container(machine, node)};
  if (is_nvidia(node)) return {ChainLink::kPermission, exists, "sudo chmod a+rw " + node.path};
  return {ChainLink::kPermission, exists, join_group(machine, node)};
}

}  // namespace

Verdict judge_node(const Machine& machine, const DeviceNode& node) {
  if (!node.exists) return missing(machine, node);
  switch (node.open_error) {
    case 0:
      return {};
    case EACCES:
      return refused(machine, node);
    case EPERM:
      return {ChainLink::kPermission,
              fmt::format("{} exists, but the device rules of this {} refuse it", node.path,
                          machine.process.container.empty() ? "session" : "container"),
              run_container(machine, node)};
    default:
      return {ChainLink::kPermission, fmt::format("{} cannot be opened: {}", node.path, std::strerror(node.open_error)),
              "sudo dmesg | grep -iE 'amdgpu|kfd|nvidia' | tail says what the driver met"};
  }
}

std::string container_options(const Machine& machine) {
  std::string options = "--device /dev/kfd --device /dev/dri";
  if (machine.process.container == "podman" && machine.process.rootless) return options + " --group-add keep-groups";
  std::set<unsigned> groups;
  for (const auto& [path, node] : machine.nodes) {
    if (node.exists && !is_nvidia(node) && node.group != 0) groups.insert(node.group);
  }
  for (const unsigned group : groups) options += fmt::format(" --group-add {}", group);
  // The group's number on the host is unknown inside the container; the host's shell knows it.
  if (groups.empty()) options += " --group-add $(getent group render | cut -d: -f3)";
  return options;
}

}  // namespace gabbro::discovery
