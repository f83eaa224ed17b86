// `linear` and `linear_fused` of a small batch of tokens on matrix cores (kernels/linear/linear_batch.cc).
#pragma once

#include <memory>

#include "backends/common/linear_request.h"
#include "backends/gpu/kernel.h"
#include "backends/gpu/ops/weights.h"

namespace gabbro::gpu {

// Most tokens for which these kernels are asked first. They read the weights once per kMaxBatchTile tokens, which for
// weights that are not f16 costs less than their conversion for a library.
constexpr int64_t kBatchTokens = 64, kBatchConvertedTokens = 192;
// Fewest tokens with plain weights: with fewer, products in f32 keep up with memory.
constexpr int64_t kBatchPlainTokens = 5;

// Whether there are such kernels for the weight, and the rule prefers them.
bool asks_batch(const abi::TensorView& weight, int64_t tokens, const MakeContext& context);

// Null if a matrix has no such kernel, or the matrices want activations in different orders.
std::unique_ptr<Kernel> make_linear_batch(const abi::KernelRequest& request, const abi::LinearOptions& options,
                                          const MakeContext& context);

}  // namespace gabbro::gpu
