// The ops that a GPU has kernels for: one row per op, or per family of elementwise ops, and one function that makes a
// kernel for a request.
#pragma once

#include <span>

#include "backends/common/kernel_table.h"
#include "backends/gpu/kernel.h"

namespace gabbro::gpu {

// Rows without an op are of elementwise ops, which kernels/elementwise/op_list.h lists.
using KernelEntry = abi::KernelEntry<MakeKernel>;
using abi::kInPlace;

std::span<const KernelEntry> kernel_table();

// ops/linear.cc
std::unique_ptr<Kernel> make_linear(const abi::KernelRequest& request, const MakeContext& context);
// ops/expert_linear.cc
std::unique_ptr<Kernel> make_expert_linear(const abi::KernelRequest& request, const MakeContext& context);
// ops/expert_fused.cc
std::unique_ptr<Kernel> make_expert_gated(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_expert_sum(const abi::KernelRequest& request, const MakeContext& context);
// ops/read_rows.cc
std::unique_ptr<Kernel> make_embedding(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_dequantize(const abi::KernelRequest& request, const MakeContext& context);
// ops/elementwise.cc
std::unique_ptr<Kernel> make_unary(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_arithmetic(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_of_floats(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_of_integers(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_comparison(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_logical(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_where(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_clamp(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_copy(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_cast(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_concat(const abi::KernelRequest& request, const MakeContext& context);
// ops/fused_elementwise.cc
std::unique_ptr<Kernel> make_elementwise(const abi::KernelRequest& request, const MakeContext& context);
// ops/reduce.cc
std::unique_ptr<Kernel> make_reduce(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_argreduce(const abi::KernelRequest& request, const MakeContext& context);
// ops/sort.cc
std::unique_ptr<Kernel> make_sort(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_topk(const abi::KernelRequest& request, const MakeContext& context);
// ops/sampling.cc
std::unique_ptr<Kernel> make_sampling(const abi::KernelRequest& request, const MakeContext& context);
// ops/rank_sum.cc
std::unique_ptr<Kernel> make_rank_sum(const abi::KernelRequest& request, const MakeContext& context);
// ops/softmax_topk.cc
std::unique_ptr<Kernel> make_softmax_topk(const abi::KernelRequest& request, const MakeContext& context);
// ops/conv_nhwc.cc
std::unique_ptr<Kernel> make_conv_nhwc(const abi::KernelRequest& request, const MakeContext& context);
// ops/group_norm_nhwc.cc
std::unique_ptr<Kernel> make_group_norm_nhwc(const abi::KernelRequest& request, const MakeContext& context);
// ops/index.cc
std::unique_ptr<Kernel> make_gather(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_resolve_index(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_scatter(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_iota(const abi::KernelRequest& request, const MakeContext& context);
// ops/matmul.cc
std::unique_ptr<Kernel> make_matmul(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_matmul_fused(const abi::KernelRequest& request, const MakeContext& context);
// ops/rms_norm.cc
std::unique_ptr<Kernel> make_rms_norm(const abi::KernelRequest& request, const MakeContext& context);
// ops/scatter_add.cc
std::unique_ptr<Kernel> make_take_along(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_scatter_add(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_scatter_set(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_index_add(const abi::KernelRequest& request, const MakeContext& context);
// ops/window.cc
std::unique_ptr<Kernel> make_im2col(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_conv(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_conv_transpose(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_pool(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_resize(const abi::KernelRequest& request, const MakeContext& context);
// ops/random.cc
std::unique_ptr<Kernel> make_random(const abi::KernelRequest& request, const MakeContext& context);
// ops/softmax.cc
std::unique_ptr<Kernel> make_softmax(const abi::KernelRequest& request, const MakeContext& context);
// ops/recurrence.cc
std::unique_ptr<Kernel> make_causal_conv(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_selective_scan(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_gated_delta_rule(const abi::KernelRequest& request, const MakeContext& context);
// ops/scan.cc
std::unique_ptr<Kernel> make_cumsum(const abi::KernelRequest& request, const MakeContext& context);
// ops/layer_norm.cc
std::unique_ptr<Kernel> make_layer_norm(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_add_norm(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_group_norm(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_batch_norm(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_moments(const abi::KernelRequest& request, const MakeContext& context);
// ops/feed_forward.cc
std::unique_ptr<Kernel> make_feed_forward(const abi::KernelRequest& request, const MakeContext& context);
// ops/attention_dense.cc
std::unique_ptr<Kernel> make_attention_dense(const abi::KernelRequest& request, const MakeContext& context);
// ops/rope_kv.cc
std::unique_ptr<Kernel> make_rope(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_kv_write(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_rope_kv_write(const abi::KernelRequest& request, const MakeContext& context);
// ops/attention.cc
std::unique_ptr<Kernel> make_attention(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_latent_attention(const abi::KernelRequest& request, const MakeContext& context);
std::unique_ptr<Kernel> make_attention_step(const abi::KernelRequest& request, const MakeContext& context);

}  // namespace gabbro::gpu
