// Installed parts of ROCm, and whether they fit together. Gabbro itself needs the HIP runtime and nothing else.
#include <fmt/format.h>

#include <set>

#include "src/backend/discovery/fields.h"
#include "src/backend/doctor/checks.h"

namespace gabbro::doctor {
namespace {

using namespace discovery;

constexpr size_t kPackageDatabaseLimit = 32 << 20;

std::string rocm_folder(const Examination& e) { return e.machine.environment.get("ROCM_PATH").value_or("/opt/rocm"); }

std::string installed_version(const Examination& e, const std::string& folder) {
  return e.machine.root.read(folder + "/.info/version", 256).value_or("");
}

std::string major_of(const std::string& version) { return version.substr(0, version.find('.')); }

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
  std::string trees;
  int count = 0;
  for (const std::string& name : e.machine.root.list("/opt")) {
    if (!name.starts_with("rocm-")) continue;
    trees += (trees.empty() ? "/opt/" : ", /opt/") + name;
    ++count;
  }
  const RuntimeReport& report = e.runtimes.report(RuntimeKind::kHip);
  const std::string installed = installed_version(e, rocm_folder(e));
  if (!report.version.empty() && !installed.empty() && major_of(report.version) != major_of(installed)) {
    return warning(
        fmt::format("{} is of HIP {}, but {} is ROCm {}: two releases are mixed", report.path, report.version,
                    rocm_folder(e), installed),
        fmt::format("export LD_LIBRARY_PATH={}/lib, or remove the package that owns {}", rocm_folder(e), report.path));
  }
  if (count > 1) {
    return warning(fmt::format("{} ROCm trees are installed: {}", count, trees),
                   "remove all but one: sudo apt purge 'rocm*' of the others, or set ROCM_PATH to the one to use");
  }
  return ok(count == 0 && installed.empty() ? "no ROCm tree under /opt"
                                            : fmt::format("one ROCm tree ({})", installed.empty() ? trees : installed));
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
  const std::string system = installed_version(e, rocm_folder(e));
  for (const std::string& folder : python_folders(e)) {
    const std::string wheel = wheel_hip_version(e.machine.root.read(folder + "/torch/version.py", 4096).value_or(""));
    if (wheel.empty()) continue;
    if (!system.empty() && major_of(wheel) != major_of(system)) {
      return warning(fmt::format("PyTorch in {} is built for ROCm {}, but the system has {}: do not load both in one "
                                 "process (Gabbro does not use PyTorch)",
                                 folder, wheel, system),
                     fmt::format("install the PyTorch wheel for ROCm {}", major_of(system)));
    }
    return ok(fmt::format("PyTorch for ROCm {} in {}", wheel, folder));
  }
  return ok("no PyTorch for ROCm, and Gabbro needs none");
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
