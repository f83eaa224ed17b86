// Opening ROCm's libraries, which need not be on the loader's path.
#pragma once

#include <dlfcn.h>

#include <filesystem>
#include <initializer_list>

namespace gabbro::gpu::hip {

// The first of `names` that can be opened: from the loader's path, then $ROCM_PATH/lib, then /opt/rocm/lib, as
// gabbro_probe looks for the runtime. Null where there is none.
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
