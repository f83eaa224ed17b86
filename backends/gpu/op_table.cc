#include "backends/gpu/op_table.h"

namespace gabbro::gpu {
namespace {

// clang-format off
constexpr OpEntry kOps[] = {
    {"rms_norm", make_rms_norm},
    {"softmax", make_softmax},
    {"rope", make_rope},
    {"kv_write", make_kv_write},
    {"rope_kv_write", make_rope_kv_write},
    {"attention", make_attention},
    {"gather", make_gather},
    {"linear", make_linear},
    {"linear_fused", make_linear_fused},
    {"embedding", make_embedding},
    {"dequantize", make_dequantize},
};
// clang-format on

}  // namespace

std::span<const OpEntry> op_table() { return kOps; }

}  // namespace gabbro::gpu
