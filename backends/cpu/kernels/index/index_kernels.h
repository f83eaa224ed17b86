// The kernel that turns indices into positions (index.cc); see kernels.h.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"

namespace gabbro::cpu::GABBRO_ISA {

std::unique_ptr<Kernel> make_resolve_index(const abi::KernelRequest& request, const MakeContext& context);

}  // namespace gabbro::cpu::GABBRO_ISA
