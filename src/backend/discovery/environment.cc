#include "src/backend/discovery/environment.h"

#include <cstdlib>

namespace gabbro::discovery {

Environment Environment::of_process() {
  Values values;
  for (const char* name : {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES",
                           "HSA_OVERRIDE_GFX_VERSION", "HSA_ENABLE_SDMA", "HSA_XNACK", "ROCM_PATH", "LD_LIBRARY_PATH",
                           "PATH", "HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "MIOPEN_FIND_MODE", "MIOPEN_FIND_ENFORCE",
                           "KUBERNETES_SERVICE_HOST", "GABBRO_DEVICE"}) {
    if (const char* value = std::getenv(name)) values.emplace(name, value);
  }
  return Environment(std::move(values));
}

}  // namespace gabbro::discovery
