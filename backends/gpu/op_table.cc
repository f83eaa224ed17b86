#include "backends/gpu/op_table.h"

namespace gabbro::gpu {
namespace {

// clang-format off
constexpr OpEntry kOps[] = {
    {"elementwise", make_elementwise},
    {"where", make_where},
    {"clamp", make_clamp},
    {"take_along", make_take_along},
    {"scatter_add", make_scatter_add},
    {"scatter_set", make_scatter_set},
    {"index_add", make_index_add},
    {"cast", make_cast},
    {"copy", make_copy},
    {"sum", make_reduce},
    {"prod", make_reduce},
    {"max", make_reduce},
    {"min", make_reduce},
    {"argmax", make_argreduce},
    {"argmin", make_argreduce},
    {"sort", make_sort},
    {"topk", make_topk},
    {"rms_norm", make_rms_norm},
    {"im2col", make_im2col},
    {"conv", make_conv},
    {"conv_transpose", make_conv_transpose},
    {"pool", make_pool},
    {"adaptive_avg_pool2d", make_resize},
    {"upsample2d", make_resize},
    {"random", make_random},
    {"softmax", make_softmax},
    {"log_softmax", make_softmax},
    {"cumsum", make_cumsum},
    {"layer_norm", make_layer_norm},
    {"add_rms_norm", make_add_norm},
    {"add_layer_norm", make_add_norm},
    {"group_norm", make_group_norm},
    {"batch_norm", make_batch_norm},
    {"batch_norm_fused", make_batch_norm},
    {"moments", make_moments},
    {"rope", make_rope},
    {"kv_write", make_kv_write, kInPlace},
    {"rope_kv_write", make_rope_kv_write, kInPlace},
    {"scaled_dot_product_attention", make_attention_dense},
    {"attention", make_attention},
    {"latent_attention", make_latent_attention},
    {"causal_conv", make_causal_conv, kInPlace},
    {"selective_scan", make_selective_scan, kInPlace},
    {"gated_delta_rule", make_gated_delta_rule, kInPlace},
    {"attention_step", make_attention_step, kInPlace},
    {"matmul", make_matmul},
    {"matmul_fused", make_matmul_fused},
    {"gather", make_gather},
    {"resolve_index", make_resolve_index},
    {"scatter", make_scatter, kInPlace},
    {"iota", make_iota},
    {"concat", make_concat},
    {"linear", make_linear},
    {"linear_fused", make_linear},
    {"expert_linear", make_expert_linear},
    {"feed_forward", make_feed_forward},
    {"embedding", make_embedding},
    {"dequantize", make_dequantize},
    {nullptr, make_unary},
    {nullptr, make_arithmetic},
    {nullptr, make_of_floats},
    {nullptr, make_of_integers},
    {nullptr, make_comparison},
    {nullptr, make_logical},
};
// clang-format on

}  // namespace

std::span<const OpEntry> op_table() { return kOps; }

}  // namespace gabbro::gpu
