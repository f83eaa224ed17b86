// Everything that the search for AMD's HIP library depends on: variables, folders, and what the process has loaded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gabbro::hip_search {

inline constexpr std::string_view kLibrary = "libamdhip64";

struct Settings {
  std::string root;                   // stands for "/" of fixed folders (GABBRO_TOOLCHAIN_ROOT); empty: this machine
  std::string hip_path;               // GABBRO_HIP_PATH: a file or a folder; only that is tried
  std::string loaded;                 // the copy that the process has loaded
  std::string rocm_path, hip_root;    // ROCM_PATH, HIP_PATH
  std::string library_path;           // LD_LIBRARY_PATH
  std::vector<std::string> packages;  // site-packages of the Python environment
  std::string program_folder;

  static Settings of_process();
};

// The path of a copy of libamdhip64 in this process, under any file name; empty without one.
std::string loaded_library();

// One line that names both files if the process has two copies, which crash each other; empty otherwise.
std::string two_copies();

// The site-packages and dist-packages folders that `files` are in, each once.
std::vector<std::string> package_folders(const std::vector<std::string>& files);

}  // namespace gabbro::hip_search
