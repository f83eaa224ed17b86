// Read by kernel_names.cmake's preprocessor run only: the macros that define kernels leave a mark with the name.
#pragma once

#include "backends/gpu/sim/vocabulary.h"

#undef GPU_KERNEL
#define GPU_KERNEL(name, ...) gabbro_kernel_name(name, __FILE__)
