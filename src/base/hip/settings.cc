#include "src/base/hip/settings.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace gabbro::hip_search {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Files that the process has mapped as libraries.
std::vector<std::string> loaded_files() {
  std::vector<std::string> files;
  const auto append = [](dl_phdr_info* info, size_t, void* data) {
    if (info->dlpi_name != nullptr && *info->dlpi_name != '\0') {
      static_cast<std::vector<std::string>*>(data)->emplace_back(info->dlpi_name);
    }
    return 0;
  };
  ::dl_iterate_phdr(append, &files);
  return files;
}

void append_once(std::vector<std::string>& folders, std::string folder) {
  if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(std::move(folder));
}

// lib/python3*/site-packages of an environment.
void append_packages(std::vector<std::string>& folders, const fs::path& environment) {
  std::error_code error;
  for (fs::directory_iterator at(environment / "lib", error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with("python3")) append_once(folders, at->path() / "site-packages");
  }
}

}  // namespace

std::string loaded_library() {
  for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}) {
    void* library = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) continue;
    link_map* map = nullptr;
    const std::string path = ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
    ::dlclose(library);
    if (!path.empty()) return path;
  }
  for (const std::string& file : loaded_files()) {
    if (fs::path(file).filename().string().starts_with(kLibrary)) return file;
  }
  return {};
}

std::string two_copies() {
  std::vector<std::string> copies;
  for (const std::string& file : loaded_files()) {
    if (!fs::path(file).filename().string().starts_with(kLibrary)) continue;
    std::error_code error;
    const fs::path real = fs::canonical(file, error);
    append_once(copies, error ? file : real.string());
  }
  if (copies.size() < 2) return {};
  return fmt::format(
      "this process has loaded two HIP runtimes, {} and {}, which crash each other: set GABBRO_HIP_PATH={}", copies[0],
      copies[1], copies[1]);
}

std::vector<std::string> package_folders(const std::vector<std::string>& files) {
  std::vector<std::string> folders;
  for (const std::string& file : files) {
    for (const std::string_view name : {"/site-packages/", "/dist-packages/"}) {
      const size_t at = file.find(name);
      if (at != std::string::npos) append_once(folders, file.substr(0, at + name.size() - 1));
    }
  }
  return folders;
}

Settings Settings::of_process() {
  Settings settings;
  settings.root = variable("GABBRO_TOOLCHAIN_ROOT");
  while (settings.root.ends_with('/')) settings.root.pop_back();
  settings.hip_path = variable("GABBRO_HIP_PATH");
  settings.loaded = loaded_library();
  settings.rocm_path = variable("ROCM_PATH");
  settings.hip_root = variable("HIP_PATH");
  settings.library_path = variable("LD_LIBRARY_PATH");
  settings.packages = package_folders(loaded_files());
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string environment = variable(name); !environment.empty()) {
      append_packages(settings.packages, environment);
    }
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return settings;
  settings.program_folder = program.parent_path();
  // The program of a virtual environment that is not activated.
  const fs::path environment = program.parent_path().parent_path();
  if (fs::exists(environment / "pyvenv.cfg", error)) append_packages(settings.packages, environment);
  return settings;
}

}  // namespace gabbro::hip_search
