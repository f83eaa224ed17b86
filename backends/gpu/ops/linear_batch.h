// `linear` and `linear_fused` of a small batch of tokens on matrix cores (kernels/linear/linear_batch.cc).
#pragma once

#include <memory>

#include "backends/common/linear_request.h"
#include "backends/gpu/kernel.h"
#include "backends/gpu/ops/weights.h"

namespace gabbro::gpu {

// Whether there are such kernels for the weight, and whether the rule prefers them to others.
bool takes_batch(const abi::TensorView& weight, int64_t tokens, const MakeContext& context);
bool asks_batch(const abi::TensorView& weight, int64_t tokens, const MakeContext& context);

// Null if a matrix has no such kernel, or the matrices want activations in different orders.
std::unique_ptr<Kernel> make_linear_batch(const abi::KernelRequest& request, const abi::LinearOptions& options,
                                          const MakeContext& context);

}  // namespace gabbro::gpu
