#include "src/base/hip/package.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <system_error>
#include <vector>

namespace gabbro::hip_search {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestFile = 64 << 10;

std::string read_text(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  std::ifstream file(path, std::ios::binary);
  std::string text(kLongestFile, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

std::map<std::string, std::string> os_release(const std::string& root) {
  std::string text = read_text(root + "/etc/os-release");
  if (text.empty()) text = read_text(root + "/usr/lib/os-release");
  std::map<std::string, std::string> fields;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    std::string value = line.substr(equals + 1);
    std::erase_if(value, [](char c) { return c == '"' || c == '\''; });
    fields.emplace(line.substr(0, equals), value);
  }
  return fields;
}

enum class Repository { kNone, kLegacy, kCurrent };

// AMD's repository among the sources of packages: of ROCm 7.2 and older, or of TheRock's releases.
Repository amd_repository(const std::string& root) {
  Repository found = Repository::kNone;
  for (const char* folder : {"/etc/apt/sources.list.d", "/etc/yum.repos.d", "/etc/zypp/repos.d"}) {
    std::error_code error;
    for (fs::directory_iterator at(root + folder, error), end; !error && at != end; at.increment(error)) {
      const std::string text = read_text(at->path());
      if (text.find("repo.amd.com/rocm") != std::string::npos) return Repository::kCurrent;
      if (text.find("repo.radeon.com/rocm") != std::string::npos) found = Repository::kLegacy;
    }
  }
  return found;
}

std::string from_amd(const std::string& command, Repository repository) {
  switch (repository) {
    case Repository::kLegacy:
      return command + " hip-runtime-amd";
    case Repository::kCurrent:
      return command + " amdrocm-runtime";
    case Repository::kNone:
      break;
  }
  return command + " amdrocm-runtime, after adding AMD's package repository (rocm.docs.amd.com)";
}

}  // namespace

std::string package_hint(const std::string& root) {
  auto fields = os_release(root);
  const Repository repository = amd_repository(root);
  const int version = std::atoi(fields["VERSION_ID"].c_str());  // 0: a rolling release
  const auto is = [&](std::string_view name) {
    return (" " + fields["ID"] + " " + fields["ID_LIKE"] + " ").find(fmt::format(" {} ", name)) != std::string::npos;
  };
  if (fields["ID"] == "steamos") {
    return "the system is read-only: install TheRock's wheel (rocm) below $HOME, and set GABBRO_HIP_PATH to its folder";
  }
  if (is("nixos")) return "add rocmPackages.clr to hardware.graphics.extraPackages, then sudo nixos-rebuild switch";
  if (is("arch")) return "sudo pacman -S hip-runtime-amd";
  if (fields["ID"] == "fedora") return "sudo dnf install rocm-hip";
  if (is("debian") || is("ubuntu")) {
    const int first = fields["ID"] == "ubuntu" ? 26 : 14;  // the first release with HIP 7
    const bool has_own = (fields["ID"] == "ubuntu" || fields["ID"] == "debian") && (version == 0 || version >= first);
    if (has_own && repository == Repository::kNone) return "sudo apt install libamdhip64-7 libhiprtc7";
    if (repository != Repository::kNone) return from_amd("sudo apt install", repository);
    return from_amd("sudo apt install", repository) + "; newer releases have libamdhip64-7 libhiprtc7";
  }
  if (is("suse") || is("opensuse")) return from_amd("sudo zypper install", repository);
  if (is("rhel") || is("fedora") || is("centos") || is("amzn")) return from_amd("sudo dnf install", repository);
  return "install the HIP runtime (amdrocm-runtime of AMD's repository; of ROCm 7.2 and older hip-runtime-amd), or set "
         "GABBRO_HIP_PATH to its folder";
}

}  // namespace gabbro::hip_search
