// Opening ROCm's libraries, which need not be on the loader's path (src/base/hip/search.h).
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <initializer_list>

#include "src/base/hip/search.h"

namespace gabbro::gpu::hip {

// The HIP library; searched for once.
const hip_search::Found& hip_library();

// The first of `names` that can be opened, a library that belongs to HIP: from HIP's folder first. Null without one.
void* open_library(std::initializer_list<const char*> names);

// The file of the library that contains a function, with links resolved; empty if unknown.
std::filesystem::path path_of(const void* function);

// Whether the library has the function.
template <class Function>
bool find_function(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace gabbro::gpu::hip
