#include "backends/gpu/op_table.h"

namespace gabbro::gpu {
namespace {

// clang-format off
constexpr OpEntry kOps[] = {
    {"neg", make_unary},
    {"abs", make_unary},
    {"exp", make_unary},
    {"log", make_unary},
    {"sqrt", make_unary},
    {"rsqrt", make_unary},
    {"sin", make_unary},
    {"cos", make_unary},
    {"tanh", make_unary},
    {"sigmoid", make_unary},
    {"floor", make_unary},
    {"add", make_arithmetic},
    {"sub", make_arithmetic},
    {"mul", make_arithmetic},
    {"div", make_arithmetic},
    {"pow", make_arithmetic},
    {"maximum", make_arithmetic},
    {"minimum", make_arithmetic},
    {"eq", make_comparison},
    {"ne", make_comparison},
    {"lt", make_comparison},
    {"le", make_comparison},
    {"gt", make_comparison},
    {"ge", make_comparison},
    {"logical_and", make_logical},
    {"logical_or", make_logical},
    {"where", make_where},
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
    {"random", make_random},
    {"softmax", make_softmax},
    {"log_softmax", make_softmax},
    {"cumsum", make_cumsum},
    {"layer_norm", make_layer_norm},
    {"group_norm", make_group_norm},
    {"batch_norm", make_batch_norm},
    {"moments", make_moments},
    {"rope", make_rope},
    {"kv_write", make_kv_write},
    {"rope_kv_write", make_rope_kv_write},
    {"attention", make_attention},
    {"attention_step", make_attention_step},
    {"matmul", make_matmul},
    {"gather", make_gather},
    {"scatter", make_scatter},
    {"iota", make_iota},
    {"concat", make_concat},
    {"linear", make_linear},
    {"linear_fused", make_linear},
    {"embedding", make_embedding},
    {"dequantize", make_dequantize},
};
// clang-format on

}  // namespace

std::span<const OpEntry> op_table() { return kOps; }

}  // namespace gabbro::gpu
