// The one search for AMD's HIP library, libamdhip64: for the ROCm plugin, gabbro_probe, and what the doctor, the survey
// and Python say of them. Order: GABBRO_HIP_PATH alone, a copy that the process has loaded, ROCM_PATH and HIP_PATH,
// the loader, /opt, Python's packages, the folders of NixOS and WSL.
#pragma once

#include <initializer_list>
#include <string>

#include "src/base/hip/settings.h"

namespace gabbro::hip_search {

struct Found {
  void* library = nullptr;  // of dlopen; null: not found
  std::string path;
  std::string problem;  // one line, without a library: what was tried, and what was found and not taken
};

// Opens the library. Versions of its interface that Gabbro does not know are named in `problem` and not opened, unless
// GABBRO_HIP_PATH names one.
Found open_hip(const Settings& settings);

// Opens the first of `names`, a library that belongs to HIP (hiprtc, rocBLAS, MIOpen): a copy that is loaded, then from
// the folder of `hip_path` and the wheels next to it, then as HIP is searched for. Null: not found.
void* open_with_hip(const Settings& settings, const std::string& hip_path, std::initializer_list<const char*> names);

}  // namespace gabbro::hip_search
