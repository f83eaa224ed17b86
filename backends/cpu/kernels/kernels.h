// What kernel_table.cc lists: one function per kernel file. Each looks at a request and makes a kernel for it, or not.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"

namespace gabbro::cpu::GABBRO_ISA {

using KernelPointer = std::unique_ptr<Kernel>;

KernelPointer make_unary(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_binary(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_where(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_cast(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_copy(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_linear(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_embedding(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_dequantize(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_linear_fused(const abi::KernelRequest& request, const MakeContext& context);

}  // namespace gabbro::cpu::GABBRO_ISA
