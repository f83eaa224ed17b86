// The machine: everything that doctor reads, and what it finds there.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "src/backend/discovery/fields.h"
#include "src/backend/doctor/doctor.h"
#include "src/base/child_process.h"
#include "src/base/hip/folders.h"
#include "src/base/hip/library_file.h"
#include "src/report/build_id.h"
#include "src/report/part.h"
#include "src/report/recorded_tree.h"

namespace gabbro::report {
namespace {

using namespace discovery;
using nlohmann::ordered_json;

constexpr size_t kPackageDatabaseLimit = 32 << 20;

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

// Variables of ROCm, CUDA and Gabbro. None of these holds a secret; names that sound like one are left out anyway.
std::string environment_text() {
  std::vector<std::string> lines;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view line = *at, name = line.substr(0, line.find('='));
    const bool wanted = std::ranges::any_of(
        std::array{"GABBRO_", "HIP_", "HIPBLASLT_", "HSA_", "ROCR_", "ROCM_", "ROCBLAS_", "ROC_", "GPU_", "AMD_",
                   "MIOPEN_", "TENSILE_", "CUDA_", "NVIDIA_", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTORCH_ROCM_"},
        [&](const char* beginning) { return name.starts_with(beginning); });
    if (wanted && !contains_any(name, {"TOKEN", "KEY", "SECRET", "PASS"})) lines.emplace_back(line);
  }
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

bool is_gpu_package(std::string_view name) {
  return contains_any(name, {"rocm", "hip", "hsa", "amdgpu", "rocblas", "miopen", "rccl", "comgr", "amdkfd", "nvidia",
                             "libcuda", "linux-firmware", "firmware-amd"});
}

// "name version" for each package of ROCm and of GPU drivers: dpkg, rpm or pacman.
std::string package_text(const SystemRoot& root) {
  std::string text;
  if (const auto database = root.read("/var/lib/dpkg/status", kPackageDatabaseLimit)) {
    std::string name;
    for (const std::string& line : split(*database, "\n")) {
      if (line.starts_with("Package: ")) name = line.substr(9);
      if (line.starts_with("Version: ") && is_gpu_package(name)) text += name + " " + line.substr(9) + "\n";
    }
    return text;
  }
  for (const std::string& name : root.list("/var/lib/pacman/local")) {
    if (is_gpu_package(name)) text += name + "\n";
  }
  if (text.empty() && !root.recorded()) {
    const ChildResult rpm = run_child({"/usr/bin/rpm", "-qa"}, std::chrono::seconds(10));
    for (const std::string& name : split(rpm.output, "\n")) {
      if (rpm.succeeded && is_gpu_package(name)) text += name + "\n";
    }
  }
  return text;
}

// Lines of the kernel's log that the GPU drivers wrote. Empty without the right to read it.
std::string kernel_log(const SystemRoot& root) {
  const auto wanted = [](const std::string& line) {
    return contains_any(line, {"amdgpu", "kfd", "AMD-Vi", "NVRM", "nvidia"});
  };
  std::string text;
  if (root.recorded()) {
    for (const std::string& line : split(root.read("/dev/kmsg", 1 << 20).value_or(""), "\n")) {
      if (wanted(line)) text += line + "\n";
    }
    return text;
  }
  const int log = ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  std::array<char, 8192> record;
  for (int i = 0; log >= 0 && i < 100000 && text.size() < (size_t{1} << 20); ++i) {
    const ssize_t got = ::read(log, record.data(), record.size());  // one record each
    if (got <= 0) break;
    const std::string_view whole(record.data(), static_cast<size_t>(got));
    const size_t message = whole.find(';');
    if (message == std::string_view::npos) continue;
    const std::string line(whole.substr(message + 1, whole.find('\n', message) - message - 1));
    if (wanted(line)) text += line + "\n";
  }
  if (log >= 0) ::close(log);
  return text;
}

// ROCm's libraries in the folders of the search for HIP, with the build ids by which their makers know them.
std::string library_text() {
  const auto settings = hip_search::Settings::of_process();
  std::vector<std::string> folders;
  for (const auto& step : hip_search::search_steps(settings)) {
    if (!step.folder.empty()) folders.push_back(step.folder);
  }
  for (const std::string& folder : hip_search::loader_folders(settings)) folders.push_back(folder);
  std::string text;
  std::vector<std::filesystem::path> seen;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (name.find(".so") == std::string::npos ||
          !contains_any(name, {"libamdhip64", "libhsa-runtime64", "libhiprtc", "libamd_comgr", "librocblas",
                               "libhipblaslt", "libMIOpen", "librocdxg", "librccl"}))
        continue;
      std::error_code broken;
      const auto real = std::filesystem::canonical(at->path(), broken);
      if (broken || std::ranges::find(seen, real) != seen.end()) continue;
      seen.push_back(real);
      text += fmt::format("{} {}\n", real.string(), build_id(real.string()));
    }
  }
  return text;
}

}  // namespace

void record_machine(const PartOptions&, PartOutput& output) {
  const Machine machine = read_machine();
  Runtimes runtimes(machine.root);
  output.file("machine/environment.txt", environment_text());
  output.file("machine/packages.txt", package_text(machine.root));
  output.file("machine/kernel_log.txt", kernel_log(machine.root));
  output.file("machine/libraries.txt", library_text());
  for (const ReportFile& file : recorded_tree(machine, runtimes))
    output.file("machine/tree/" + file.name, file.content);
  const std::vector<Plugin> plugins = load_plugins();
  const doctor::Examination examination{machine, plugins, runtimes};
  for (const doctor::Check& check : doctor::check_table()) {
    const doctor::Finding finding = check.run(examination);
    output.line({{"check", check.id},
                 {"status", doctor::status_name(finding.status)},
                 {"summary", finding.summary},
                 {"fix", finding.fix}});
  }
}

}  // namespace gabbro::report
