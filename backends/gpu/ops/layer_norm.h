// Normalizing rows by their own statistics.
#pragma once

#include <memory>

#include "backends/common/norm_request.h"
#include "backends/gpu/kernel.h"

namespace gabbro::gpu {

std::unique_ptr<Kernel> make_normalized_rows(const abi::KernelRequest& request, const abi::NormRequest& norm,
                                             const MakeContext& context);

}  // namespace gabbro::gpu
