// `expert_linear` and `expert_gated` of many tokens on matrix cores: kernels/linear/expert_batch.cc.
#pragma once

#include "backends/common/expert_request.h"
#include "backends/gpu/kernel.h"

namespace gabbro::gpu {

inline constexpr int64_t kMostGridRows = 65535;  // blocks of a grid's second axis

// Null where the target has no such kernel for the weights, and for few tokens. `form`: one matrix, or two with
// SiLU·mul, and then perhaps the weight of an RMSNorm of x.
std::unique_ptr<Kernel> make_expert_batch(const abi::KernelRequest& request, const abi::ExpertRequest& sizes,
                                          const abi::ExpertForm& form, const MakeContext& context);

}  // namespace gabbro::gpu
