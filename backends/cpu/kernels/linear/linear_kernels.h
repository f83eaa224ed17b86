// Kernels of this folder that no dense language model needs (kernel_table.cc).
#pragma once

#include "backends/cpu/kernels/kernels.h"

namespace gabbro::cpu::GABBRO_ISA {

KernelPointer make_expert_linear(const abi::KernelRequest& request, const MakeContext& context);

}  // namespace gabbro::cpu::GABBRO_ISA
