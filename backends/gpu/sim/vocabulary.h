// The vocabulary of kernels (kernels/gpu/gpu.h, kernels/gpu/matrix.h) for the host. The build includes this header
// ahead of each kernel source (-include), so that kernels/ includes nothing of the simulator.
#pragma once

#include "backends/gpu/sim/gpu.h"
#include "backends/gpu/sim/matrix.h"
