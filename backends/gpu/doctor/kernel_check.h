// The check `kernels` of `gabbro doctor --self-test`: kernels of each kind on the device itself, at odd sizes, against
// the same computed by the host in double precision.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/device.h"

namespace gabbro::gpu {

struct KernelVerdict {
  std::string name;  // "linear q8_0, 20 tokens"
  bool right = true;
  double error = 0;  // the largest, as a share of the root mean square of the result
};

// All of them, in a fixed order. Throws ApiError where the device fails.
std::vector<KernelVerdict> check_kernels(GpuDevice& device);

}  // namespace gabbro::gpu
