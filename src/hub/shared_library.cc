#include "src/hub/shared_library.h"

#include <dlfcn.h>

#include "src/base/error.h"

namespace gabbro::hub {

SharedLibrary::SharedLibrary(std::initializer_list<const char*> names, const char* package) {
  for (const char* name : names) {
    handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    name_ = name;
    if (handle_ != nullptr) return;
  }
  throw Error(ErrorCode::kFailed, fmt::format("downloads need {}, which cannot be opened", *names.begin()),
              fmt::format("apt-get install {}", package));
}

void* SharedLibrary::find(const char* name) const {
  void* function = dlsym(handle_, name);
  if (function == nullptr) throw failed("{} has no {}: it is too old", name_, name);
  return function;
}

}  // namespace gabbro::hub
