#include "src/report/recorded_tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <set>

#include "src/backend/discovery/fields.h"

namespace gabbro::report {
namespace {

using namespace discovery;

constexpr std::array kFiles = {"/facts",
                               "/proc/sys/kernel/osrelease",
                               "/proc/meminfo",
                               "/proc/self/uid_map",
                               "/proc/driver/nvidia/version",
                               "/sys/fs/selinux/enforce",
                               "/sys/module/amdgpu/version",
                               "/.dockerenv",
                               "/run/.containerenv",
                               "/opt/rocm/.info/version",
                               "/etc/os-release",
                               "/dev/dxg"};
constexpr std::array kFolders = {"/sys/module/amdgpu/parameters", "/sys/module/ttm/parameters",
                                 "/proc/driver/nvidia/gpus", "/sys/class/kfd/kfd/topology/nodes"};
constexpr std::array kCardFiles = {"vendor",
                                   "device",
                                   "class",
                                   "uevent",
                                   "product_name",
                                   "vbios_version",
                                   "mem_info_vram_total",
                                   "mem_info_vram_used",
                                   "mem_info_gtt_total",
                                   "mem_info_gtt_used",
                                   "current_link_speed",
                                   "current_link_width",
                                   "max_link_speed",
                                   "max_link_width",
                                   "gpu_busy_percent",
                                   "iommu_group/type",
                                   "pp_dpm_sclk",
                                   "pp_dpm_mclk",
                                   "current_compute_partition",
                                   "current_memory_partition"};
constexpr std::array kMonitorFiles = {"power1_average", "power1_input", "power1_cap",
                                      "freq1_input",    "freq2_input",  "temp1_input"};
// Topology nodes link to each other; their many caches are not needed.
constexpr std::array kLeftOut = {"caches", "perf", "p2p_links"};

class Recorder {
 public:
  explicit Recorder(const SystemRoot& root) : root_(root) {}

  void add(const std::string& path, std::string content) {
    if (!content.ends_with('\n')) content += '\n';
    files_.push_back({path.substr(1), std::move(content)});
  }
  void copy(const std::string& path) {
    if (auto text = root_.read(path)) add(path, std::move(*text));
  }
  // Lines of the file that `wanted` accepts.
  template <class Wanted>
  void copy_lines(const std::string& path, Wanted wanted) {
    const auto text = root_.read(path);
    if (!text) return;
    std::string kept;
    for (const std::string& line : split(*text, "\n")) {
      if (wanted(line)) kept += line + "\n";
    }
    add(path, std::move(kept));
  }
  void copy_folder(const std::string& folder, int depth = 4) {
    for (const std::string& name : root_.list(folder)) {
      if (std::ranges::find(kLeftOut, name) != kLeftOut.end()) continue;
      const std::string path = fmt::format("{}/{}", folder, name);
      std::error_code error;
      if (!std::filesystem::is_directory(root_.path(path), error)) {
        copy(path);
      } else if (depth > 0) {
        copy_folder(path, depth - 1);
      }
    }
  }
  std::vector<ReportFile> take() { return std::move(files_); }

 private:
  const SystemRoot& root_;
  std::vector<ReportFile> files_;
};

bool concerns_gpus(const std::string& line) {
  return std::ranges::any_of(std::array{"amdgpu", "amdkfd", "radeon", "ttm", "nvidia", "nouveau"},
                             [&](const char* word) { return line.find(word) != std::string::npos; });
}

void add_card(Recorder& recorder, const SystemRoot& root, const Card& card) {
  const std::string folder = "/sys/bus/pci/devices/" + card.pci.address;
  for (const char* file : kCardFiles) recorder.copy(fmt::format("{}/{}", folder, file));
  recorder.copy_folder(folder + "/fw_version", 0);
  for (const std::string& node : root.list(folder + "/drm")) recorder.copy(fmt::format("{}/drm/{}/dev", folder, node));
  for (const std::string& monitor : root.list(folder + "/hwmon")) {
    for (const char* file : kMonitorFiles) recorder.copy(fmt::format("{}/hwmon/{}/{}", folder, monitor, file));
  }
}

// The lines of the list of PCI devices that name these cards.
std::string pci_ids(const std::vector<Card>& cards) {
  std::map<uint16_t, std::map<uint16_t, std::string>> makers;
  for (const Card& card : cards) makers[static_cast<uint16_t>(card.pci.vendor)][card.pci.device] = card.pci.name;
  std::string text = "# The part of the list of PCI devices that this machine needs.\n";
  for (const auto& [maker, devices] : makers) {
    text += fmt::format("{:04x}  {}\n", maker, maker == 0x1002 ? "AMD" : "NVIDIA");
    for (const auto& [device, name] : devices) {
      const std::string_view prefix = maker == 0x1002 ? "AMD " : "NVIDIA ";
      text += fmt::format("\t{:04x}  {}\n", device, name.starts_with(prefix) ? name.substr(prefix.size()) : name);
    }
  }
  return text;
}

std::string error_name(int error) {
  switch (error) {
    case 0:
      return "ok";
    case EACCES:
      return "EACCES";
    case EPERM:
      return "EPERM";
    case ENOENT:
      return "ENOENT";
    case ENODEV:
      return "ENODEV";
    case ENXIO:
      return "ENXIO";
    case EBUSY:
      return "EBUSY";
    default:
      return "EIO";
  }
}

std::string runtime_line(RuntimeKind kind, const RuntimeReport& report) {
  const char* state = report.state == RuntimeState::kOk        ? "ok"
                      : report.state == RuntimeState::kMissing ? "missing"
                      : report.state == RuntimeState::kFailed  ? "failed"
                      : report.state == RuntimeState::kHung    ? "hung"
                      : report.state == RuntimeState::kCrashed ? "crashed"
                                                               : "not_probed";
  std::string line = fmt::format("runtime {} status={}", runtime_key(kind), state);
  if (!report.path.empty()) line += " path=" + report.path;
  if (!report.version.empty()) line += " version=" + report.version;
  if (!report.devices.empty()) line += fmt::format(" devices={}", fmt::join(report.devices, ","));
  if (!report.message.empty()) line += " message=" + report.message;
  return line + "\n";
}

std::string facts_of(const Machine& machine, Runtimes& runtimes) {
  std::string text;
  for (const auto& [path, node] : machine.nodes) {
    if (!node.exists) continue;
    text += fmt::format("node {} uid={} gid={} mode={:04o} open={}\n", path, node.owner, node.group, node.mode,
                        error_name(node.open_error));
  }
  for (const RuntimeKind kind : {RuntimeKind::kHip, RuntimeKind::kCuda})
    text += runtime_line(kind, runtimes.report(kind));
  return text;
}

// The user and the groups that matter for access, without names of people.
void add_accounts(Recorder& recorder, const Machine& machine) {
  const ProcessFacts& process = machine.process;
  const std::string user = process.user == 0 ? "root" : "user";
  recorder.add("/etc/passwd", fmt::format("{}:x:{}:{}:::\n", user, process.user, process.user));
  std::string groups;
  std::set<unsigned> seen;
  for (const auto& [path, node] : machine.nodes) {
    if (node.group_name.empty() || !seen.insert(node.group).second) continue;
    groups += fmt::format("{}:x:{}:{}\n", node.group_name, node.group, node.group_member ? user : "");
  }
  recorder.add("/etc/group", groups);
}

}  // namespace

std::string gpu_words(const std::string& command_line) {
  std::string kept;
  for (const std::string& word : split(command_line, " \t\n")) {
    const bool wanted = std::ranges::any_of(
        std::array{"amdgpu", "amd_iommu", "intel_iommu", "iommu", "ttm.", "modprobe.blacklist", "module_blacklist",
                   "nvidia", "nouveau", "pci=", "pcie_", "nomodeset", "radeon", "mem="},
        [&](const char* beginning) { return word.starts_with(beginning); });
    if (wanted) kept += (kept.empty() ? "" : " ") + word;
  }
  return kept;
}

std::vector<ReportFile> recorded_tree(const Machine& machine, Runtimes& runtimes) {
  const SystemRoot& root = machine.root;
  Recorder recorder(root);
  for (const char* file : kFiles) recorder.copy(file);
  for (const char* folder : kFolders) recorder.copy_folder(folder);
  recorder.add("/proc/cmdline", gpu_words(machine.kernel.command_line));
  recorder.copy_lines("/proc/self/status", [](const std::string& line) {
    return line.starts_with("Uid:") || line.starts_with("Gid:") || line.starts_with("Groups:");
  });
  // The kind of the container, without its name.
  if (!machine.process.container.empty()) recorder.add("/proc/self/cgroup", "0::/" + machine.process.container);
  for (const char* folder : {"/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"}) {
    for (const std::string& name : root.list(folder)) {
      const std::string path = fmt::format("{}/{}", folder, name);
      if (concerns_gpus(root.read(path).value_or(""))) recorder.copy_lines(path, concerns_gpus);
    }
  }
  for (const Card& card : machine.cards) add_card(recorder, root, card);
  recorder.add("/usr/share/misc/pci.ids", pci_ids(machine.cards));
  add_accounts(recorder, machine);
  if (!root.recorded()) recorder.add("/facts", facts_of(machine, runtimes));
  return recorder.take();
}

}  // namespace gabbro::report
