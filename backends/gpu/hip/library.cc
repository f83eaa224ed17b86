#include "backends/gpu/hip/library.h"

#include <cstdlib>
#include <string>

namespace gabbro::gpu::hip {

void* open_library(std::initializer_list<const char*> names) {
  const char* rocm = std::getenv("ROCM_PATH");
  const std::string own = rocm == nullptr || *rocm == '\0' ? "" : std::string(rocm) + "/lib/";
  for (const std::string& folder : {std::string(), own, std::string("/opt/rocm/lib/")}) {
    for (const char* name : names) {
      if (void* library = ::dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  return nullptr;
}

std::filesystem::path path_of(const void* function) {
  Dl_info found = {};
  if (::dladdr(function, &found) == 0 || found.dli_fname == nullptr) return {};
  std::error_code unknown;
  return std::filesystem::canonical(found.dli_fname, unknown);
}

}  // namespace gabbro::gpu::hip
