// The kernels of kernel_table.cc that only the tensor library needs (kernels.h has the others). Each reads a request
// and makes a kernel for it, or not.
#pragma once

#include <memory>

#include "backends/cpu/kernel.h"

namespace gabbro::cpu::GABBRO_ISA {

std::unique_ptr<Kernel> make_elementwise(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_im2col(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_conv_channels(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_conv(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_conv_depthwise_small(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_conv_depthwise(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_conv_transpose_channels(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_conv_transpose(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_conv_weight_gradient(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_dense_attention(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_matmul_dot(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_flip(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_recurrent(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_recurrent_gradient(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_pool(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_max_pool_gradient(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_resize(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_random(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_typed_unary(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_typed_binary(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_typed_matmul(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_clamp(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_take_along(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_scatter_add(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_scatter_set(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_index_add(const abi::KernelRequest& request, const MakeContext& context);

}  // namespace gabbro::cpu::GABBRO_ISA
