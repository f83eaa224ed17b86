// Loads backend plugins: libgabbro_<name>.so in GABBRO_PLUGIN_PATH, next to the library, or in ../lib of the program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gabbro/backend_abi.h"

namespace gabbro {

struct Plugin {
  std::string name;                       // "cpu", from the file's name
  const abi::Backend* backend = nullptr;  // null where it could not be loaded
  std::shared_ptr<void> library;          // keeps the code loaded
  std::string reason;                     // why it could not be loaded
};

// Every plugin of the first folder that has one, by descending score.
std::vector<Plugin> load_plugins();

// The fault of GABBRO_PLUGIN_PATH, in one line that names it: not a folder, not readable, or without plugins.
// Empty: nothing, or it is not set.
std::string plugin_path_problem();

// The path of a helper program that is installed with the plugins; empty where it is not there.
std::string find_beside_library(const std::string& name);

}  // namespace gabbro
