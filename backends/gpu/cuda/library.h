// Opening NVIDIA's libraries.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include <fmt/format.h>

namespace gabbro::gpu::api {

// The first of `names` that can be opened; null: none.
inline void* open_library(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

// "13.0.2", of a version counted as 10000 · major + 100 · minor + patch.
inline std::string version_text(size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace gabbro::gpu::api
