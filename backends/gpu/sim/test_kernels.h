// Arguments of the kernels of the simulator's own tests.
#pragma once

#include "kernels/gpu/types.h"

namespace gabbro::gpu {

struct TestArgs {
  float* data;
  i64 index;
  float* out;
};

}  // namespace gabbro::gpu
