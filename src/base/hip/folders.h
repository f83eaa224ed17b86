// The folders in which libamdhip64 may be, in the order of the search.
#pragma once

#include <string>
#include <vector>

#include "src/base/hip/settings.h"

namespace gabbro::hip_search {

// Trees of ROCm that exist: ROCM_PATH, HIP_PATH, /opt/rocm, /opt/rocm/core, then /opt/rocm/core-* and /opt/rocm-*, the
// highest number first. Several may be links to one folder.
std::vector<std::string> rocm_trees(const Settings& settings);

struct Step {
  std::string folder;  // empty: the loader's own search
};
// Steps of the search after GABBRO_HIP_PATH and the copy that the process has loaded.
std::vector<Step> search_steps(const Settings& settings);

// Folders of the loader's own search: LD_LIBRARY_PATH, those in which the loader's cache has a libamdhip64, and the
// system's. The loader itself also follows its other rules.
std::vector<std::string> loader_folders(const Settings& settings);

// The words for all folders of the search: "ROCM_PATH=/x, the loader's path, /opt/rocm, ...".
std::string describe_search(const Settings& settings);

// lib and lib64 of a folder, and of _rocm_sdk_core there.
std::vector<std::string> library_folders(const std::string& folder);

}  // namespace gabbro::hip_search
