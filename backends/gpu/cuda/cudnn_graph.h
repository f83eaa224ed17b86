// Convolutions by cuDNN's graph API: a graph of one operation, planned by the library's own heuristics.
#pragma once

#include <memory>

#include "backends/gpu/conv_library.h"
#include "backends/gpu/cuda/cudnn_library.h"

namespace gabbro::gpu::api {

// Null where the library takes no such convolution.
std::unique_ptr<LibraryConvolution> make_cudnn_graph(const std::shared_ptr<CudnnHandle>& shared,
                                                     const ConvShape& shape);

}  // namespace gabbro::gpu::api
