// The kernels of one instruction set; compiled once per set. The first row that takes a request wins.
#include <string_view>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/index/index_kernels.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/linear/linear_kernels.h"
#include "backends/cpu/kernels/recurrence_kernels.h"
#include "backends/cpu/kernels/tensor_kernels.h"
#include "backends/cpu/pack/pack.h"

#define GABBRO_TEXT_OF(x) #x
#define GABBRO_TEXT(x) GABBRO_TEXT_OF(x)

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// A row for each family of elementwise functions, which has the names of its ops (`op` is null), and for each other op.
// The `typed` ones take the dtypes that the fast ones do not.
// clang-format off
constexpr KernelEntry kKernels[] = {
    {"where", make_where},
    {"clamp", make_clamp},
    {"take_along", make_take_along},
    {"scatter_add", make_scatter_add},
    {"scatter_set", make_scatter_set},
    {"index_add", make_index_add},
    {"cast", make_cast},
    {"copy", make_transposing_copy},
    {"copy", make_copy},
    {"sum", make_reduce},
    {"prod", make_reduce},
    {"max", make_reduce},
    {"min", make_reduce},
    {"argmax", make_argreduce},
    {"argmin", make_argreduce},
    {"sort", make_sort},
    {"topk", make_sort},
    {"sampling", make_sampling},
    {"cumsum", make_cumsum},
    {"layer_norm", make_layer_norm},
    {"group_norm", make_group_norm},
    {"batch_norm", make_batch_norm},
    {"moments", make_moments},
    {"batch_norm_sums", make_batch_norm_sums},
    {"im2col", make_im2col},
    {"conv", make_conv_depthwise_small},
    {"conv", make_conv_depthwise},
    {"conv", make_conv_channels},
    {"conv", make_conv},
    {"conv_transpose", make_conv_transpose_channels},
    {"conv_transpose", make_conv_transpose},
    {"conv_weight_gradient", make_conv_weight_gradient},
    {"flip", make_flip},
    {"recurrent", make_recurrent},
    {"recurrent_gradient", make_recurrent_gradient},
    {"pool", make_pool},
    {"max_pool_gradient", make_max_pool_gradient},
    {"adaptive_avg_pool2d", make_resize},
    {"upsample2d", make_resize},
    {"random", make_random},
    {"softmax", make_softmax},
    {"log_softmax", make_softmax},
    {"rms_norm", make_rms_norm},
    {"rope", make_rope},
    {"kv_write", make_kv_write, kInPlace},
    {"rope_kv_write", make_rope_kv_write, kInPlace},
    {"attention", make_attention},
    {"scaled_dot_product_attention", make_dense_attention},
    {"attention_rows_first", make_dense_attention},
    {"latent_attention", make_latent_attention},
    {"causal_conv", make_causal_conv, kInPlace},
    {"selective_scan", make_selective_scan, kInPlace},
    {"gated_delta_rule", make_gated_delta_rule, kInPlace},
    {"matmul", make_matmul_dot},
    {"matmul", make_matmul_few},
    {"matmul", make_matmul},
    {"matmul", make_matmul_pairs},
    {"gather", make_gather},
    {"resolve_index", make_resolve_index},
    {"scatter", make_scatter, kInPlace},
    {"iota", make_iota},
    {"concat", make_concat},
    {"linear", make_linear},
    {"linear_fused", make_linear},
    {"expert_linear", make_expert_linear},
    {"embedding", make_embedding},
    {"dequantize", make_dequantize},
    {"matmul", make_typed_matmul},
    {"elementwise", make_elementwise},
    {nullptr, make_unary},
    {nullptr, make_binary},
    {nullptr, make_typed_unary},
    {nullptr, make_typed_binary},
};
// clang-format on

}  // namespace

KernelPointer make_kernel(const abi::KernelRequest& request, const MakeContext& context) {
  for (const KernelEntry& entry : kKernels) {
    if (!entry.has(request.op)) continue;
    if (KernelPointer kernel = entry.make(request, context)) return kernel;
  }
  return nullptr;
}

// The one symbol of the set that the rest of the program sees (CMakeLists.txt).
extern constinit const IsaTable kTable;
constinit const IsaTable kTable = {
    .name = GABBRO_TEXT(GABBRO_ISA),
    .supported = GABBRO_ISA_SUPPORTED,
    .kernels = kKernels,
    .packed_bytes = packed_bytes,
    .pack = pack,
};

}  // namespace gabbro::cpu::GABBRO_ISA
