#include "backends/gpu/hip/library.h"

namespace gabbro::gpu::hip {
namespace {

const hip_search::Settings& settings() {
  static const hip_search::Settings settings = hip_search::Settings::of_process();
  return settings;
}

}  // namespace

const hip_search::Found& hip_library() {
  static const hip_search::Found found = hip_search::open_hip(settings());
  return found;
}

void* open_library(std::initializer_list<const char*> names) {
  return hip_search::open_with_hip(settings(), hip_library().path, names);
}

std::filesystem::path path_of(const void* function) {
  Dl_info found = {};
  if (::dladdr(function, &found) == 0 || found.dli_fname == nullptr) return {};
  std::error_code unknown;
  return std::filesystem::canonical(found.dli_fname, unknown);
}

}  // namespace gabbro::gpu::hip
