#include "src/backend/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

namespace gabbro {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "libgabbro_";
constexpr std::string_view kSuffix = ".so";

std::atomic<abi::ReportProgress> progress_sink{nullptr};

// Folders of this library's files: its own and gabbro/ there (libgabbro.so, installed), the program's, ../lib/gabbro
// (installed) and ../lib (built) of that.
std::vector<fs::path> own_folders() {
  std::vector<fs::path> folders;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&load_plugins), &info) != 0 && info.dli_fname != nullptr) {
    // A program that was found on the PATH has no folder in its name; the current folder is none of ours.
    if (fs::path folder = fs::path(info.dli_fname).parent_path(); !folder.empty()) {
      folders.push_back(folder);
      folders.push_back(folder / "gabbro");
    }
  }
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (!ignored) {
    folders.push_back(program.parent_path());
    const fs::path lib = program.parent_path().parent_path() / "lib";
    folders.push_back(lib / "gabbro");
    folders.push_back(lib);
  }
  return folders;
}

// GABBRO_PLUGIN_PATH; empty: not set.
std::string forced_folder() {
  const char* path = std::getenv("GABBRO_PLUGIN_PATH");
  return path != nullptr ? path : "";
}

std::vector<fs::path> plugin_folders() {
  if (const std::string forced = forced_folder(); !forced.empty()) return {fs::path(forced)};
  return own_folders();
}

bool is_plugin(const fs::path& path) {
  const std::string file = path.filename().string();
  return file.starts_with(kPrefix) && file.ends_with(kSuffix) && file.size() > kPrefix.size() + kSuffix.size();
}

// "cpu" of libgabbro_cpu.so.
std::string name_of(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
}

Plugin load(const fs::path& file) {
  Plugin plugin;
  plugin.name = name_of(file);
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    plugin.reason = ::dlerror();
    return plugin;
  }
  plugin.library = std::shared_ptr<void>(handle, [](void* library) { ::dlclose(library); });
  const auto entry = reinterpret_cast<const abi::Backend* (*)()>(::dlsym(handle, abi::kEntryPoint));
  if (entry == nullptr) {
    plugin.reason = fmt::format("{} has no function {}", file.string(), abi::kEntryPoint);
    return plugin;
  }
  const abi::Backend* backend = entry();
  if (backend == nullptr) {
    plugin.reason = fmt::format("{}: {} gives no backend", file.string(), abi::kEntryPoint);
    return plugin;
  }
  if (backend->abi_version != abi::kVersion) {
    plugin.reason = fmt::format("{} is built for version {} of the plugin contract, this program for version {}",
                                file.string(), backend->abi_version, abi::kVersion);
    return plugin;
  }
  if (const auto set_progress = reinterpret_cast<abi::SetProgress>(::dlsym(handle, abi::kProgressEntry)))
    set_progress(progress_sink);
  plugin.backend = backend;
  return plugin;
}

}  // namespace

void set_progress_sink(abi::ReportProgress sink) { progress_sink = sink; }

std::string find_beside_library(const std::string& name) {
  for (const fs::path& folder : own_folders()) {
    std::error_code error;
    const fs::path file = fs::absolute(folder / name, error);
    if (!error && ::access(file.c_str(), X_OK) == 0) return file.string();
  }
  return {};
}

std::string plugin_path_problem() {
  const std::string folder = forced_folder();
  if (folder.empty()) return {};
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error) return fmt::format("GABBRO_PLUGIN_PATH: {}: {}", folder, error.message());
  const bool found = std::any_of(fs::begin(entry), fs::end(entry),
                                 [](const fs::directory_entry& file) { return is_plugin(file.path()); });
  return found ? "" : fmt::format("GABBRO_PLUGIN_PATH: {} holds no backend plugin (libgabbro_*.so)", folder);
}

std::vector<PluginFile> plugin_files(const std::vector<fs::path>& folders) {
  std::map<std::string, size_t> indices;  // in `files`, by the plugin's name
  std::vector<PluginFile> files;
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (!is_plugin(at->path())) continue;
      const auto [known, is_new] = indices.emplace(name_of(at->path()), files.size());
      if (is_new) files.push_back({.path = at->path(), .skipped = {}});
      PluginFile& first = files[known->second];
      std::error_code ignored;
      if (!fs::equivalent(first.path, at->path(), ignored)) first.skipped.push_back(at->path());
    }
  }
  return files;
}

std::vector<Plugin> load_plugins() {
  std::vector<Plugin> plugins;
  for (PluginFile& file : plugin_files(plugin_folders())) {
    plugins.push_back(load(file.path));
    plugins.back().skipped = std::move(file.skipped);
  }
  std::ranges::sort(plugins, [](const Plugin& a, const Plugin& b) {
    const int x = a.backend != nullptr ? a.backend->score : -1000;
    const int y = b.backend != nullptr ? b.backend->score : -1000;
    return x != y ? x > y : a.name < b.name;
  });
  return plugins;
}

}  // namespace gabbro
