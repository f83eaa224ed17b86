#include "src/backend/discovery/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "src/backend/discovery/fields.h"

namespace gabbro::discovery {
namespace {

std::string blacklist_of(const SystemRoot& root, const std::string& command_line) {
  for (const std::string& word : split(command_line, " \t\n")) {
    const bool blacklists = word.starts_with("modprobe.blacklist=") || word.starts_with("module_blacklist=");
    const auto modules = split(std::string_view(word).substr(std::min(word.find('=') + 1, word.size())), ",");
    if (blacklists && std::ranges::find(modules, "amdgpu") != modules.end()) return "the kernel command line";
  }
  for (const char* folder : {"/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"}) {
    for (const std::string& name : root.list(folder)) {
      std::string file = fmt::format("{}/{}", folder, name);
      for (const std::string& line : split(root.read(file).value_or(""), "\n")) {
        const auto words = split(line, " \t\r");
        if (words.size() >= 2 && words[0] == "blacklist" && words[1] == "amdgpu") return file;
      }
    }
  }
  return {};
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Mon ..."
std::string nvidia_version(const SystemRoot& root) {
  for (const std::string& word : split(root.read("/proc/driver/nvidia/version").value_or(""), " \t\n")) {
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return {};
}

std::optional<int64_t> signed_number(const std::optional<std::string>& text) {
  int64_t value = 0;
  if (!text) return std::nullopt;
  const auto [stop, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

bool KernelFacts::at_least(int major, int minor) const {
  const auto parts = split(release, ".-+");
  if (parts.size() < 2) return false;
  const std::pair<uint64_t, uint64_t> version = {parse_number(parts[0]).value_or(0),
                                                 parse_number(parts[1]).value_or(0)};
  return version >= std::pair<uint64_t, uint64_t>(static_cast<uint64_t>(major), static_cast<uint64_t>(minor));
}

KernelFacts read_kernel(const SystemRoot& root) {
  KernelFacts kernel;
  kernel.release = root.read("/proc/sys/kernel/osrelease", 256).value_or("");
  kernel.command_line = root.read("/proc/cmdline").value_or("");
  kernel.wsl = kernel.release.find("icrosoft") != std::string::npos || root.exists("/dev/dxg");
  kernel.amdgpu_loaded = root.exists("/sys/module/amdgpu");
  kernel.amdgpu_version = root.read("/sys/module/amdgpu/version", 256).value_or("");
  kernel.amdgpu_blacklisted_in = blacklist_of(root, kernel.command_line);
  kernel.ttm_pages = root.read_number("/sys/module/ttm/parameters/pages_limit");
  kernel.gpu_recovery = signed_number(root.read("/sys/module/amdgpu/parameters/gpu_recovery", 64));
  kernel.iommu = !root.list("/sys/class/iommu").empty();
  kernel.nvidia_version = nvidia_version(root);
  for (const std::string& name : root.list("/sys/class/devcoredump")) {
    if (name.starts_with("devcd")) kernel.core_dumps.push_back(name);
  }
  return kernel;
}

}  // namespace gabbro::discovery
