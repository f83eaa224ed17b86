// Convolutions of several output channels as products of matrices; null for others.
#pragma once

#include <memory>

#include "backends/common/window_request.h"
#include "backends/cpu/kernel.h"

namespace gabbro::cpu::GABBRO_ISA {

std::unique_ptr<Kernel> make_conv_product(const abi::ConvRequest& conv, bool transposed, int workers);

}  // namespace gabbro::cpu::GABBRO_ISA
