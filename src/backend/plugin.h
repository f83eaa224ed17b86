// Loads backend plugins: libgabbro_<name>.so in GABBRO_PLUGIN_PATH alone, or next to the library and in ../lib of the
// program.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gabbro/backend_abi.h"
#include "src/base/progress_entry.h"

namespace gabbro {

struct Plugin {
  std::string name;                            // "cpu", from the file's name
  const abi::Backend* backend = nullptr;       // null where it could not be loaded
  std::shared_ptr<void> library;               // keeps the code loaded
  std::string reason;                          // why it could not be loaded
  std::vector<std::filesystem::path> skipped;  // plugins of this name in later folders
};

// The plugins of all folders, the first of each name, by descending score.
std::vector<Plugin> load_plugins();

struct PluginFile {
  std::filesystem::path path;
  std::vector<std::filesystem::path> skipped;
};
// Their files in folders that are searched in this order.
std::vector<PluginFile> plugin_files(const std::vector<std::filesystem::path>& folders);

// The fault of GABBRO_PLUGIN_PATH, in one line that names it: not a folder, not readable, or without plugins.
// Empty: nothing, or it is not set.
std::string plugin_path_problem();

// Receives what plugins report of work that takes long (src/base/progress_entry.h), one line at a time, on any thread.
// Null, as at first: nothing. For plugins that are loaded later.
void set_progress_sink(abi::ReportProgress sink);

// The path of a helper program that is installed with the plugins; empty where it is not there.
std::string find_beside_library(const std::string& name);

}  // namespace gabbro
