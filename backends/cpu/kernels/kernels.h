// The kernels of kernel_table.cc: one function per kernel file. Each reads a request and makes a kernel for it, or not.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"

namespace gabbro::cpu::GABBRO_ISA {

using KernelPointer = std::unique_ptr<Kernel>;

// The kernel of the first row of the table that takes the request; null: no row does.
KernelPointer make_kernel(const abi::KernelRequest& request, const MakeContext& context);

KernelPointer make_unary(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_binary(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_where(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_cast(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_transposing_copy(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_copy(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_reduce(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_argreduce(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_sort(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_sampling(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_cumsum(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_layer_norm(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_group_norm(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_batch_norm(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_moments(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_batch_norm_sums(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_softmax(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_rms_norm(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_rope(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_kv_write(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_rope_kv_write(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_attention(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_matmul_few(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_matmul(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_matmul_pairs(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_gather(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_scatter(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_iota(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_concat(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_linear(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_embedding(const abi::KernelRequest& request, const MakeContext& context);
KernelPointer make_dequantize(const abi::KernelRequest& request, const MakeContext& context);

}  // namespace gabbro::cpu::GABBRO_ISA
