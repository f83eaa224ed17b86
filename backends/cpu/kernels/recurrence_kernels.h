// Kernels of language models other than llamas: attention over latents, and recurrences with states.
#pragma once

#include "backends/cpu/kernels/kernels.h"

namespace gabbro::cpu::GABBRO_ISA {

KernelPointer make_latent_attention(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_causal_conv(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_selective_scan(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_gated_delta_rule(const abi::KernelRequest& request, const MakeContext& context);

}  // namespace gabbro::cpu::GABBRO_ISA
