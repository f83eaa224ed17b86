#include "src/backend/discovery/environment.h"

#include <cstdlib>

namespace gabbro::discovery {

Environment Environment::of_process() {
  Values values;
  for (const char* name : {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES",
                           "HSA_OVERRIDE_GFX_VERSION", "ROCM_PATH", "HIP_PATH", "LD_LIBRARY_PATH", "PATH", "HOME",
                           "VIRTUAL_ENV", "CONDA_PREFIX", "MIOPEN_FIND_ENFORCE"}) {
    if (const char* value = std::getenv(name)) values.emplace(name, value);
  }
  return Environment(std::move(values));
}

}  // namespace gabbro::discovery
