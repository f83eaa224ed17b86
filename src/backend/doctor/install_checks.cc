// Installed parts of ROCm, and whether they fit together. Gabbro itself needs the HIP runtime and nothing else.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>
#include <system_error>

#include "src/backend/discovery/fields.h"
#include "src/backend/doctor/checks.h"
#include "src/base/hip/folders.h"
#include "src/base/hip/library_file.h"

namespace gabbro::doctor {
namespace {

using namespace discovery;

constexpr size_t kPackageDatabaseLimit = 32 << 20;

std::string value_of(const Examination& e, const char* variable) {
  return e.machine.environment.get(variable).value_or("");
}

hip_search::Settings search_settings(const Examination& e) {
  hip_search::Settings settings;
  settings.root = e.machine.root.path("");
  settings.library_path = value_of(e, "LD_LIBRARY_PATH");
  if (const std::string tree = value_of(e, "ROCM_PATH"); !tree.empty()) settings.rocm_path = e.machine.root.path(tree);
  if (const std::string tree = value_of(e, "HIP_PATH"); !tree.empty()) settings.hip_root = e.machine.root.path(tree);
  return settings;
}

std::string rocm_folder(const Examination& e) {
  if (const std::string named = value_of(e, "ROCM_PATH"); !named.empty()) return named;
  const std::vector<std::string> trees = rocm_trees(e);
  return trees.empty() ? "/opt/rocm" : trees.front();
}

std::string installed_version(const Examination& e, const std::string& folder) {
  return e.machine.root.read(folder + "/.info/version", 256).value_or("");
}

int major_of(const std::string& version) { return std::atoi(version.c_str()); }

// HIP 7 goes with ROCm 7 and all later ones.
int hip_major_of_release(const std::string& release) { return std::min(major_of(release), hip_search::kNewestMajor); }

// A library of HIP on the loader's path that is too old for Gabbro.
std::string too_old_library(const Examination& e) {
  for (const std::string& folder : hip_search::loader_folders(search_settings(e))) {
    for (const hip_search::LibraryFile& file : hip_search::libraries_in(folder)) {
      if (file.major != 0 && file.major < hip_search::kOldestMajor && file.link_target.empty()) {
        return file.path.substr(e.machine.root.path("").size());
      }
    }
  }
  return {};
}

// Trees with a number in their names, each folder once.
std::vector<std::string> numbered_trees(const Examination& e) {
  std::vector<std::string> trees;
  std::set<std::filesystem::path> seen;
  for (const std::string& tree : rocm_trees(e)) {
    if (!tree.starts_with("/opt/rocm-") && !tree.starts_with("/opt/rocm/core-")) continue;
    std::error_code error;
    const auto real = std::filesystem::canonical(e.machine.root.path(tree), error);
    if (!error && seen.insert(real).second) trees.push_back(tree);
  }
  return trees;
}

// "6.2" of every line like "deb https://repo.radeon.com/rocm/apt/6.2 noble main".
std::set<std::string> repository_versions(const std::string& text) {
  std::set<std::string> versions;
  for (const char* marker : {"/rocm/apt/", "/rocm/rhel8/", "/rocm/rhel9/", "/rocm/zyp/"}) {
    for (const std::string& line : split(text, "\n")) {
      const size_t at = line.find(marker);
      if (at == std::string::npos || line.starts_with('#')) continue;
      const std::string rest = line.substr(at + std::string_view(marker).size());
      versions.insert(rest.substr(0, rest.find_first_of(" /\t")));
    }
  }
  return versions;
}

// The value of `hip = '6.2.41133'` in torch/version.py.
std::string wheel_hip_version(const std::string& text) {
  for (const std::string& line : split(text, "\n")) {
    if (!line.starts_with("hip")) continue;
    const auto parts = split(line, "'\"");
    return parts.size() > 1 ? parts[1] : "";
  }
  return {};
}

// Folders of Python packages that are in use or usual.
std::vector<std::string> python_folders(const Examination& e) {
  std::vector<std::string> folders = {"/usr/lib/python3/dist-packages"};
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX", "HOME"}) {
    const auto value = e.machine.environment.get(variable);
    if (!value || value->empty()) continue;
    const std::string lib = *value + (std::string_view(variable) == "HOME" ? "/.local/lib" : "/lib");
    for (const std::string& name : e.machine.root.list(lib)) {
      if (name.starts_with("python3")) folders.push_back(fmt::format("{}/{}/site-packages", lib, name));
    }
  }
  return folders;
}

}  // namespace

std::vector<std::string> rocm_trees(const Examination& e) {
  std::vector<std::string> trees = hip_search::rocm_trees(search_settings(e));
  for (std::string& tree : trees) tree.erase(0, e.machine.root.path("").size());
  return trees;
}

Finding check_rocm_path(const Examination& e) {
  if (!e.machine.has(Vendor::kAmd)) return skipped("there is no AMD GPU");
  const auto rocm_path = e.machine.environment.get("ROCM_PATH");
  const std::string folder = rocm_folder(e);
  if (rocm_path && !e.machine.root.exists(folder)) {
    return warning(fmt::format("ROCM_PATH={} does not exist", folder), "unset ROCM_PATH");
  }
  const bool tools = e.machine.root.exists(folder + "/bin/rocminfo");
  if (!tools) return ok("no ROCm tools are installed, and Gabbro needs none");
  for (const std::string& entry : split(e.machine.environment.get("PATH").value_or(""), ":")) {
    if (e.machine.root.exists(entry + "/rocminfo")) return ok(fmt::format("{} with its tools on PATH", folder));
  }
  return warning(fmt::format("{}/bin is not on PATH (rocminfo, rocm-smi; Gabbro itself does not need it)", folder),
                 fmt::format("echo 'export PATH=\"{}/bin:$PATH\"' >> ~/.profile, then log in again", folder));
}

Finding check_rocm_trees(const Examination& e) {
  const std::vector<std::string> trees = numbered_trees(e);
  const std::string names = fmt::format("{}", fmt::join(trees, ", "));
  const RuntimeReport& report = e.runtimes.report(RuntimeKind::kHip);
  const std::string installed = installed_version(e, rocm_folder(e));
  if (!report.version.empty() && !installed.empty() && major_of(report.version) != hip_major_of_release(installed)) {
    return warning(
        fmt::format("{} is of HIP {}, but {} is ROCm {}: two releases are mixed", report.path, report.version,
                    rocm_folder(e), installed),
        fmt::format("export LD_LIBRARY_PATH={}/lib, or remove the package that owns {}", rocm_folder(e), report.path));
  }
  const std::string old = report.state == RuntimeState::kOk ? too_old_library(e) : "";
  if (!old.empty()) {
    return warning(fmt::format("{} of an old ROCm is on the loader's path, next to HIP {} of {}: a program that loads "
                               "both crashes",
                               old, report.version, report.path),
                   "remove the old package (Debian, Ubuntu: sudo apt remove libamdhip64-5 libhsa-runtime64-1)");
  }
  if (trees.size() > 1) {
    return warning(fmt::format("{} ROCm trees are installed: {}{}", trees.size(), names,
                               report.path.empty() ? "" : "; HIP is that of " + report.path),
                   "remove all but one: sudo apt purge 'rocm*' of the others, or set ROCM_PATH to the one to use");
  }
  return ok(trees.empty() && installed.empty()
                ? "no ROCm tree under /opt"
                : fmt::format("one ROCm tree ({})", installed.empty() ? names : installed));
}

Finding check_repositories(const Examination& e) {
  std::set<std::string> versions;
  for (const char* folder : {"/etc/apt/sources.list.d", "/etc/yum.repos.d", "/etc/zypp/repos.d"}) {
    for (const std::string& name : e.machine.root.list(folder)) {
      if (!name.ends_with(".list") && !name.ends_with(".sources") && !name.ends_with(".repo")) continue;
      versions.merge(repository_versions(e.machine.root.read(std::string(folder) + "/" + name).value_or("")));
    }
  }
  if (versions.size() > 1) {
    return warning(
        fmt::format("package sources name {} ROCm releases at once ({} and {}): packages will mix", versions.size(),
                    *versions.begin(), *versions.rbegin()),
        "grep -rl repo.radeon.com /etc/apt/sources.list.d, and delete all but the newest; then sudo apt update");
  }
  return ok(versions.empty() ? "no package source of AMD" : "one package source of ROCm " + *versions.begin());
}

Finding check_installer(const Examination& e) {
  const auto database = e.machine.root.read("/var/lib/dpkg/status", kPackageDatabaseLimit);
  if (!database) return skipped("this system does not use dpkg");
  bool wanted = false;
  for (const std::string& line : split(*database, "\n")) {
    if (line.starts_with("Package: ")) {
      wanted = line.find("amdgpu") != std::string::npos || line.find("rocm") != std::string::npos;
    }
    if (!wanted || !line.starts_with("Status: ")) continue;
    for (const char* state : {"half-installed", "half-configured", "unpacked", "reinstreq"}) {
      if (line.find(state) == std::string::npos) continue;
      return error(fmt::format("a package of amdgpu or ROCm is only {}: the last installation broke off", state),
                   "sudo dpkg --configure -a && sudo apt --fix-broken install, then reboot");
    }
  }
  return ok("no half-installed package of amdgpu or ROCm");
}

Finding check_python_packages(const Examination& e) {
  const std::string release = installed_version(e, rocm_folder(e));
  const std::string& hip = e.runtimes.report(RuntimeKind::kHip).version;
  const std::string system = release.empty() ? hip : release;
  const int hip_major = hip.empty() ? hip_major_of_release(release) : major_of(hip);
  for (const std::string& folder : python_folders(e)) {
    const std::string wheel = wheel_hip_version(e.machine.root.read(folder + "/torch/version.py", 4096).value_or(""));
    if (wheel.empty()) continue;
    if (!system.empty() && major_of(wheel) != hip_major) {
      return warning(fmt::format("PyTorch in {} is built for ROCm {}, but the system has {}: do not load both in one "
                                 "process (Gabbro does not use PyTorch)",
                                 folder, wheel, system),
                     fmt::format("install the PyTorch wheel for ROCm {}", major_of(system)));
    }
    return ok(fmt::format("PyTorch for ROCm {} in {}", wheel, folder));
  }
  return ok("no PyTorch for ROCm, and Gabbro needs none");
}

Finding check_two_runtimes(const Examination& e) {
  const RuntimeReport& report = e.runtimes.report(RuntimeKind::kHip);
  const std::string root = e.machine.root.path("");
  std::vector<std::string> copies;
  for (const std::string& folder : python_folders(e)) {
    for (const char* package : {"/torch/lib", "/_rocm_sdk_core/lib"}) {
      for (const hip_search::LibraryFile& file : hip_search::libraries_in(root + folder + package)) {
        const std::string path = file.path.substr(root.size());
        if (file.link_target.empty() && path != report.path) copies.push_back(path);
      }
    }
  }
  if (copies.empty()) return ok("no Python package has a HIP runtime besides the one in use");
  if (report.path.empty()) return ok(fmt::format("one HIP runtime: {}", copies.front()));
  return warning(
      fmt::format("two HIP runtimes: {} {} and {} of a Python package: a process that loads both crashes", report.path,
                  report.version, fmt::join(copies, ", ")),
      fmt::format("in Python programs that use both, import torch before gabbro, or export GABBRO_HIP_PATH={}",
                  copies.front()));
}

Finding check_miopen_search(const Examination& e) {
  const auto enforce = e.machine.environment.get("MIOPEN_FIND_ENFORCE");
  if (enforce && *enforce != "1" && *enforce != "NONE" && !enforce->empty()) {
    return warning("MIOPEN_FIND_ENFORCE makes MIOpen search exhaustively, for minutes at each new shape",
                   "unset MIOPEN_FIND_ENFORCE");
  }
  return ok("MIOpen is not told to search; Gabbro runs without it");
}

Finding check_windows(const Examination&) { return skipped("concerns Windows; this is Linux"); }

}  // namespace gabbro::doctor
